package execprovider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/node/pullsecret"
	"github.com/workloadkit/workloadkit/reason"
)

// request is a CredentialProviderRequest.
type request struct {
	metav1.TypeMeta `json:",inline"`

	Image string `json:"image"`
}

// response is a CredentialProviderResponse.
type response struct {
	metav1.TypeMeta `json:",inline"`

	CacheKeyType  cacheKeyType     `json:"cacheKeyType"`
	CacheDuration *metav1.Duration `json:"cacheDuration"`
	Auth          map[string]auth  `json:"auth"`
}

// cacheKeyType says for which images a response is valid.
type cacheKeyType string

const (
	perImage    cacheKeyType = "Image"
	perRegistry cacheKeyType = "Registry"
	global      cacheKeyType = "Global"
)

type auth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// credentials returns the credentials of a response, in order of registry name.
func (r *response) credentials(source reason.Object) (out []pullsecret.Credential) {
	for _, registry := range slices.Sorted(maps.Keys(r.Auth)) {
		a := r.Auth[registry]
		out = append(out, pullsecret.Credential{
			Registry: registry, Source: source, Username: a.Username, Password: a.Password,
		})
	}
	return out
}

// These are limits of a run.
const (
	// longestDiagnosis is how many bytes of a program's standard error are kept.
	longestDiagnosis = 4 << 10
	// lag is how long to wait for the output of a killed program, because its children may keep the output open.
	lag = 2 * time.Second
)

// ask runs the program for an image. Errors contain no part of the program's output, because the output may contain
// credentials.
func (p *provider) ask(ctx context.Context, image pullsecret.Image) (*response, error) {
	if err := p.checkProgram(); err != nil {
		return nil, err
	}
	input, err := json.Marshal(request{
		TypeMeta: metav1.TypeMeta{Kind: "CredentialProviderRequest", APIVersion: p.APIVersion}, Image: image.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("request for credential provider %s: %w", p.Name, err)
	}
	output, err := p.run(ctx, input)
	if err != nil {
		return nil, err
	}
	return p.parse(output)
}

// run runs the program with an input, and returns the output.
func (p *provider) run(ctx context.Context, input []byte) ([]byte, error) {
	running, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	output := &limited{limit: p.options.Largest, full: cancel}
	diagnosis := &limited{limit: longestDiagnosis, full: func() {}}
	command := exec.CommandContext(running, p.program, p.Args...)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), output, diagnosis
	command.Env, command.Dir, command.WaitDelay = p.environment(), "/", lag
	killChildren(command)
	err := command.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = command.Cancel() // the program has ended, but its children still run
	}
	if err == nil && !output.over {
		return output.kept.Bytes(), nil
	}
	if p.options.Diagnose != nil {
		p.options.Diagnose(ctx, p.Name, diagnosis.kept.String())
	}
	switch {
	case output.over:
		return nil, p.because(InvalidResponse, fmt.Sprintf("the response has more than %d bytes", p.options.Largest))
	case ctx.Err() != nil:
		return nil, p.because(ProviderFailed, "the pull has ended before the program").With(ctx.Err())
	case running.Err() != nil:
		late := p.because(ProviderFailed, "the program has not ended within "+p.options.Timeout.String())
		return nil, late.With(running.Err())
	}
	return nil, p.failed(err)
}

// failed returns the reason for a program that has failed before the timeout.
func (p *provider) failed(err error) error {
	r := p.because(ProviderFailed, "the program cannot be run")
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		r.Detail = "the program has ended with " + exit.String()
	} else if errors.Is(err, exec.ErrWaitDelay) {
		r.Detail = "a child of the program holds the output open"
	}
	r.Remedy = "run " + p.program + " by hand on the Node, with a CredentialProviderRequest as its input"
	return r.With(err)
}

// environment returns the variables of Options and of the configuration. If a name occurs twice, the last value is
// used.
func (p *provider) environment() []string {
	out := append([]string{}, p.options.Environment...) // not nil: nil would mean the environment of the agent
	for _, v := range p.Env {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// parse parses and checks a response. The errors of encoding/json are left out, because the errors repeat parts of the
// output.
func (p *provider) parse(output []byte) (*response, error) {
	var r response
	if json.Unmarshal(output, &r) != nil {
		return nil, p.because(InvalidResponse, "the response is not a CredentialProviderResponse in JSON")
	}
	switch {
	case r.Kind != "CredentialProviderResponse":
		return nil, p.because(InvalidResponse, "the kind of the response is not CredentialProviderResponse")
	case r.APIVersion != p.APIVersion:
		return nil, p.because(InvalidResponse, "the apiVersion of the response is not "+p.APIVersion)
	case !slices.Contains([]cacheKeyType{perImage, perRegistry, global}, r.CacheKeyType):
		return nil, p.because(InvalidResponse, "the cacheKeyType of the response is not Image, Registry or Global")
	}
	return &r, nil
}

// limited is a buffer of limited size. Input beyond the limit is discarded. The bytes.Buffer is not embedded, because
// its method ReadFrom would accept unlimited input.
type limited struct {
	kept  bytes.Buffer
	limit int
	full  func() // called when the limit is exceeded
	over  bool
}

// Write accepts all input, so that a program is never blocked.
func (l *limited) Write(p []byte) (int, error) {
	room := l.limit - l.kept.Len()
	if len(p) <= room {
		return l.kept.Write(p)
	}
	l.kept.Write(p[:max(room, 0)])
	if !l.over {
		l.over = true
		l.full()
	}
	return len(p), nil
}
