package pullsecret

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// entry is an entry of a docker configuration. All other fields, such as email, are left out.
type entry struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
	RegistryToken string `json:"registrytoken,omitempty"`
}

// named is an entry with the registry name in the configuration.
type named struct {
	entry

	name  string
	place place
}

// dockerConfig is the content of the key .dockerconfigjson.
type dockerConfig[E any] struct {
	Auths map[string]E `json:"auths"`
}

// keyOf returns the key of the docker configuration in a Secret of a type.
func keyOf(kind corev1.SecretType) (key string, isPullSecret bool) {
	switch kind {
	case corev1.SecretTypeDockerConfigJson:
		return corev1.DockerConfigJsonKey, true
	case corev1.SecretTypeDockercfg:
		return corev1.DockerConfigKey, true
	}
	return "", false
}

// entriesOf returns the valid entries of a Secret, ordered by registry name, and a reason for each malformed part.
func entriesOf(secret *corev1.Secret) (valid []named, why reason.List) {
	object := reason.ObjectOf("Secret", secret)
	key, ok := keyOf(secret.Type)
	if !ok {
		return nil, reason.List{{
			Code: NotPullSecret, Object: object, Path: "type", New: reason.Shorten(string(secret.Type), 128),
			Remedy: "use a Secret of type " + string(corev1.SecretTypeDockerConfigJson),
		}}
	}
	path := "data[" + key + "]"
	auths, err := parseConfig(secret.Type, secret.Data[key])
	if err != nil {
		return nil, reason.List{{
			Code: MalformedSecret, Object: object, Path: path, Detail: err.Error(),
			Remedy: "make the Secret with kubectl create secret docker-registry",
		}}
	}
	malformed := func(path, detail string) {
		why = append(why, reason.Reason{
			Code: MalformedEntry, Object: object, Path: path, Detail: detail, Remedy: "correct or remove the entry",
		})
	}
	for i, name := range slices.Sorted(maps.Keys(auths)) {
		e := named{name: name}
		if e.place, err = parseRegistry(name); err != nil {
			malformed(path, fmt.Sprintf("%v, entry %d of %d in order of name", err, i+1, len(auths)))
			continue
		}
		if e.entry, err = parseEntry(auths[name]); err != nil {
			malformed(path+"["+reason.Shorten(e.place.key, 256)+"]", err.Error())
			continue
		}
		valid = append(valid, e)
	}
	return valid, why
}

// parseConfig parses a docker configuration. The errors of encoding/json are left out, because the errors repeat parts
// of the input.
func parseConfig(kind corev1.SecretType, raw []byte) (map[string]json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, errors.New("there is no docker configuration")
	}
	var config dockerConfig[json.RawMessage]
	var err error
	if kind == corev1.SecretTypeDockercfg {
		err = json.Unmarshal(raw, &config.Auths)
	} else {
		err = json.Unmarshal(raw, &config)
	}
	switch {
	case err != nil:
		return nil, errors.New("the docker configuration is not valid JSON of the expected form")
	case len(config.Auths) == 0:
		return nil, errors.New("the docker configuration has no entries")
	}
	return config.Auths, nil
}

func parseEntry(raw json.RawMessage) (e entry, err error) {
	if json.Unmarshal(raw, &e) != nil {
		return entry{}, errors.New("the entry is not an object of strings")
	}
	c, err := e.credential()
	switch {
	case err != nil:
		return entry{}, err
	case len(c.kinds()) == 0:
		return entry{}, errors.New("the entry has no credential")
	}
	return e, nil
}

// credential returns all credentials of the entry in a single Credential. As in the kubelet, the auth field takes
// precedence over user name and password.
func (e entry) credential() (Credential, error) {
	c := Credential{
		Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
	}
	if e.Auth == "" {
		return c, nil
	}
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(e.Auth), "="))
	user, password, found := strings.Cut(string(decoded), ":")
	if err != nil || !found {
		return Credential{}, errors.New(`the auth field is not base64 of "user:password"`)
	}
	// Old versions of docker pad the password with zero bytes, and containerd and docker remove the padding.
	c.Username, c.Password = user, strings.TrimRight(password, "\x00")
	return c, nil
}
