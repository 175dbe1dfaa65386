package execprovider

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/node/pullsecret"
	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why a provider gives no credentials.
const (
	// UnsafeProgram means that the program of a provider is missing, is not an executable file, or can be changed by
	// users other than root and the agent's user.
	UnsafeProgram reason.Code = "UnsafeProgram"
	// ProviderFailed means that the program of a provider has failed, or has not ended in time.
	ProviderFailed reason.Code = "ProviderFailed"
	// InvalidResponse means that the response of a provider is too large or malformed.
	InvalidResponse reason.Code = "InvalidResponse"
	// NeedsServiceAccount means that a provider gives credentials only for Pods with a service account.
	NeedsServiceAccount reason.Code = "NeedsServiceAccount"
)

// Options are options of Providers. The zero value is usable.
type Options struct {
	// Environment is the environment of the programs, as NAME=value; see Inherit. Nil means that only PATH is set.
	Environment []string
	// Timeout is the longest run of a program; zero means one minute, as in the kubelet.
	Timeout time.Duration
	// Largest is the largest size of a response in bytes; zero means 1 MiB.
	Largest int
	// Diagnose is called with the first 4 KiB that a failed program has written to its standard error, from any
	// goroutine. The text may contain credentials. Nil means that the text is discarded.
	Diagnose func(ctx context.Context, provider, text string)
	// Clock is the clock of the cache; nil means the real clock.
	Clock clock.PassiveClock
}

// Inherit returns the variables with the given names from an environment, such as that of os.Environ.
func Inherit(environment []string, names ...string) (out []string) {
	for _, variable := range environment {
		if name, _, found := strings.Cut(variable, "="); found && slices.Contains(names, name) {
			out = append(out, variable)
		}
	}
	return out
}

// Providers are the exec credential providers of a Node. Providers are safe for concurrent use. Make Providers with New
// or Load.
type Providers struct {
	all []*provider
}

// provider is a provider with its cache.
type provider struct {
	Provider

	program string // the path of the program
	options *Options
	turns   turns

	mu    sync.Mutex
	cache map[cacheKey]cached
}

// New returns the providers of a configuration. The directory with the programs must be an absolute path; the
// programs are checked later. New also checks the Config, which need not come from Parse. An empty Config is valid,
// and has no providers.
func New(config Config, directory string, options Options) (*Providers, error) {
	if len(config.Providers) == 0 {
		return &Providers{}, nil
	}
	if err := config.problems().Err(); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(directory) {
		return nil, reason.Reason{
			Code: InvalidConfig, New: reason.Shorten(directory, 256),
			Detail: "the directory of the programs must be an absolute path",
		}
	}
	options = options.orDefaults()
	all := &Providers{}
	for _, p := range config.Providers {
		all.all = append(all.all, &provider{
			Provider: p, program: filepath.Join(directory, p.Name), options: &options, cache: map[cacheKey]cached{},
			turns: turns{of: map[string]*turn{}},
		})
	}
	return all, nil
}

func (o Options) orDefaults() Options {
	if o.Environment == nil {
		o.Environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Largest <= 0 {
		o.Largest = 1 << 20
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// Check returns a reason for each provider that cannot give credentials now: the program is unsafe, or the provider
// requires a service account. Check runs no program.
func (p *Providers) Check() (why reason.List) {
	for _, one := range p.all {
		if one.requiresServiceAccount() {
			why = append(why, one.because(NeedsServiceAccount, "a node agent pulls without service account"))
		}
		why.Add(UnsafeProgram, one.checkProgram())
	}
	return why
}

// For returns the credentials of all providers whose patterns match the image, from caches or from the programs, and a
// reason for each provider that has failed. The Keyring may also have credentials for other images. For returns when
// all programs have ended; if the context ends, programs are killed.
func (p *Providers) For(ctx context.Context, image pullsecret.Image) (pullsecret.Keyring, reason.List) {
	var credentials []pullsecret.Credential
	var why reason.List
	for _, one := range p.all {
		if !one.matches(image) || one.requiresServiceAccount() {
			continue
		}
		found, err := one.get(ctx, image)
		why.Add(ProviderFailed, err)
		credentials = append(credentials, found...)
	}
	// All credentials form one keyring, as in the kubelet. So more specific registry names of later providers come
	// before less specific names of earlier providers.
	keyring, problems := pullsecret.New(credentials...)
	return keyring, append(why, problems...)
}

// Forget removes all cached credentials that a For of the image would return, for example after a registry has refused
// the credentials.
func (p *Providers) Forget(image pullsecret.Image) {
	for _, one := range p.all {
		if one.matches(image) {
			one.forget(image)
		}
	}
}

func (p *provider) matches(image pullsecret.Image) bool {
	return slices.ContainsFunc(p.MatchImages, func(pattern string) bool { return pullsecret.Match(pattern, image) })
}

// get returns the credentials from the cache or from the program. For each registry, only one program of a provider
// runs at a time, so that all callers that wait can use the same response.
func (p *provider) get(ctx context.Context, image pullsecret.Image) ([]pullsecret.Credential, error) {
	if found, ok := p.fromCache(image); ok {
		return found, nil
	}
	done, err := p.turns.wait(ctx, image.Host)
	if err != nil {
		return nil, fmt.Errorf("credential provider %s: %w", p.Name, err)
	}
	defer done()
	if found, ok := p.fromCache(image); ok {
		return found, nil
	}
	answer, err := p.ask(ctx, image)
	if err != nil {
		return nil, err
	}
	found := answer.credentials(p.object())
	p.remember(image, answer, found)
	return found, nil
}

func (p *provider) object() reason.Object {
	return reason.Object{Kind: "CredentialProvider", Name: p.Name}
}

func (p *provider) because(code reason.Code, detail string) reason.Reason {
	return reason.Reason{Code: code, Object: p.object(), Detail: detail}
}
