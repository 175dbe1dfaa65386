package imagepull_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/node/imagepull"
)

// sum is a digest.
var sum = "sha256:" + strings.Repeat("0123456789abcdef", 4)

// parts contains the values of a Reference that the test compares.
type parts struct{ Name, Version, Digest, Normal string }

func partsOf(r imagepull.Reference) parts {
	return parts{Name: r.Name(), Version: r.Version(), Digest: r.Digest(), Normal: r.Normal()}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, image string
		want        parts
	}{
		{"IP-1 a bare name", "nginx", parts{"nginx", "latest", "", "docker.io/library/nginx:latest"}},
		{"IP-1 a full name", "docker.io/library/nginx:1.25", parts{"nginx", "1.25", "", "docker.io/library/nginx:1.25"}},
		{"IP-1 a port is no tag", "reg.io:5000/a/b", parts{"reg.io:5000/a/b", "latest", "", "reg.io:5000/a/b:latest"}},
		{"IP-1 the digest wins", "a/b:v1@" + sum, parts{"a/b", sum, sum, "docker.io/a/b@" + sum}},
		{"IP-1 a digest alone", "reg.io/a@" + sum, parts{"reg.io/a", sum, sum, "reg.io/a@" + sum}},
		{"IP-1 the old name of the hub", "index.docker.io/nginx", parts{"nginx", "latest", "", "docker.io/library/nginx:latest"}},
		{"IP-1 two names below library", "library/a/b", parts{"library/a/b", "latest", "", "docker.io/library/a/b:latest"}},
		{"IP-1 localhost is a registry", "localhost/app:v1", parts{"localhost/app", "v1", "", "localhost/app:v1"}},
		{"IP-1 upper case is a registry", "Reg/app", parts{"Reg/app", "latest", "", "Reg/app:latest"}},
		{"IP-1 an address", "[2001:db8::1]:5000/repo", parts{"[2001:db8::1]:5000/repo", "latest", "", "[2001:db8::1]:5000/repo:latest"}},
		{"IP-1 separators", "reg.io/a__b/c-----d.e_f:V_1.0-x", parts{"reg.io/a__b/c-----d.e_f", "V_1.0-x", "", "reg.io/a__b/c-----d.e_f:V_1.0-x"}},
		{"IP-1 the longest path", "reg.io/" + strings.Repeat("a", 255), parts{"reg.io/" + strings.Repeat("a", 255), "latest", "", "reg.io/" + strings.Repeat("a", 255) + ":latest"}},
		{"IP-1 a host without path is a name", "192.168.1.1:5000", parts{"192.168.1.1", "5000", "", "docker.io/library/192.168.1.1:5000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := imagepull.Parse(c.image)
			if diff := cmp.Diff(c.want, partsOf(got)); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			joined, err := imagepull.Join(got.Name(), got.Version())
			if joined != got || err != nil {
				t.Errorf("joined %v, %v", joined, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, image := range map[string]string{
		"nothing": "", "a tag alone": ":tag", "a digest alone": "@" + sum, "upper case": "Nginx", "upper case in a path": "reg.io:5000/Up/low",
		"a short digest": "a@sha256:0123", "an unknown digest": "a@md5:" + strings.Repeat("0", 32), "upper case in a digest": "a@" + strings.ToUpper(sum),
		"an empty tag": "a:", "a tag that begins with a dot": "a:.b", "a long tag": "a:" + strings.Repeat("b", 129), "a long path": "reg.io/" + strings.Repeat("a", 256),
		"a zone": "[fe80::1%eth0]:5000/repo", "an empty address": "[]/repo", "a port that is too high": "reg.io:65536/a", "no port": "reg.io:/a", "a host with a dash at the end": "reg-.io/a",
		"an empty part": "reg.io//a", "a slash at the end": "reg.io/a/", "two dots": "a..b", "three underscores": "a___b", "spaces": "a b", "the ID of an image": strings.Repeat("0", 64),
		"a line break": "a\n", "two digests": "a@" + sum + "@" + sum, "a scheme": "https://reg.io/a", "an empty part of a host": "reg..io/a", "a long host": strings.Repeat("a.", 131) + "io/a",
		"mixed separators": "a-_b", "a letter of another alphabet": "reg.io/ä",
	} {
		got, err := imagepull.Parse(image)
		if !got.IsZero() || !errors.Is(err, imagepull.InvalidImage) {
			t.Errorf("IP-1 %s: %q is %v, %v", name, image, got, err)
		}
	}
	for _, version := range []string{"", "a:b", "@" + sum, "latest@" + sum} {
		if got, err := imagepull.Join("nginx", version); !got.IsZero() || !errors.Is(err, imagepull.InvalidImage) {
			t.Errorf("version %q: %v, %v", version, got, err)
		}
	}
	if zero := (imagepull.Reference{}); zero.Normal() != "" || zero.String() != "" || zero.Name() != "" {
		t.Errorf("the zero value is %q", zero)
	}
}

// FuzzParse: a Reference follows the grammar of container runtimes, and parsing each of its names gives the same
// Reference.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"nginx", "docker.io/library/nginx:1.25", "reg.io:5000/a/b", "a/b:v1@" + sum, "[::1]:5000/a", "A/b", "a:.", "library/library/a", "docker.io/a", "localhost/a"} {
		f.Add(s)
	}
	// This is the complete grammar of github.com/distribution/reference.
	const label, name = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`, `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
	grammar := regexp.MustCompile(`^(?:` + label + `(?:\.` + label + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/` + name + `(?:/` + name + `)*(?::\w[\w.-]{0,127}|@sha(?:256|384|512):[a-f0-9]{64,128})$`)
	f.Fuzz(func(t *testing.T, image string) {
		r, err := imagepull.Parse(image)
		if err != nil {
			if !r.IsZero() || len(err.Error()) > 1000 {
				t.Errorf("%v: %v", r, err)
			}
			return
		}
		if !grammar.MatchString(r.Normal()) {
			t.Errorf("%q is %q", image, r.Normal())
		}
		for _, s := range []string{r.Normal(), r.String()} {
			if again, err := imagepull.Parse(s); again != r || err != nil {
				t.Errorf("%q is %v, then %q is %v, %v", image, r, s, again, err)
			}
		}
		if again, err := imagepull.Join(r.Name(), r.Version()); again != r || err != nil {
			t.Errorf("%q is %v, joined %v, %v", image, r, again, err)
		}
	})
}

func TestRegistries(t *testing.T) {
	for _, c := range []struct {
		name  string
		list  imagepull.Registries
		image string
		want  bool
	}{
		{"an empty list allows none", nil, "nginx", false},
		{"a star allows all", imagepull.Registries{"*"}, "nginx", true},
		{"a host", imagepull.Registries{"reg.io"}, "reg.io/a", true},
		{"a host in other letters", imagepull.Registries{"Reg.io"}, "REG.io/a", true},
		{"another port", imagepull.Registries{"reg.io"}, "reg.io:5000/a", false},
		{"a host that begins alike", imagepull.Registries{"reg.io"}, "reg.io.evil.example/a", false},
		{"a path", imagepull.Registries{"ghcr.io/team/"}, "ghcr.io/team/app", true},
		{"a path that begins alike", imagepull.Registries{"ghcr.io/team"}, "ghcr.io/teammate/app", false},
		{"the repository itself", imagepull.Registries{"ghcr.io/team"}, "ghcr.io/team", true},
		{"a domain", imagepull.Registries{"*.example.com"}, "a.b.example.com/x", true},
		{"a domain is no host", imagepull.Registries{"*.example.com"}, "example.com/x", false},
		{"a domain that ends alike", imagepull.Registries{"*.example.com"}, "evilexample.com/x", false},
		{"a star within a name is no pattern", imagepull.Registries{"*example.com"}, "a.example.com/x", false},
		{"the hub by the full name", imagepull.Registries{"docker.io/library"}, "nginx", true},
		{"an empty entry", imagepull.Registries{""}, "nginx", false},
	} {
		if err := c.list.Allow(ref(c.image)); (err == nil) != c.want || err != nil && !errors.Is(err, imagepull.RegistryNotAllowed) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// ref returns the Reference of a valid image.
func ref(image string) imagepull.Reference {
	r, err := imagepull.Parse(image)
	if err != nil {
		panic(err)
	}
	return r
}
