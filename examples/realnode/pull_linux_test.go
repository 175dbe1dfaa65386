package realnode_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/kubeletpull"
	"github.com/workloadkit/workloadkit/node/imagepull/puller"
	"github.com/workloadkit/workloadkit/node/pullsecret"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/fakeregistry"
)

// privateImage pushes an image of the test program to a repository of the test. Only the user ci may pull the image.
func (f *fixture) privateImage(name string, access fakeregistry.Access) imagepull.Reference {
	f.t.Helper()
	repository := f.namespace + "/" + name
	image := f.node.App("v1")
	image.Files = append(image.Files, fakeregistry.File{Name: "name", Mode: 0o644, Content: []byte(repository)}) // a layer of its own
	if _, err := f.node.Registry().Push(repository, "v1", image); err != nil {
		f.t.Fatal(err)
	}
	access.Users = map[string]string{"ci": "secret"}
	f.node.Registry().Protect(repository, access)
	parsed, err := imagepull.Parse(f.node.Registry().Host() + "/" + repository + ":v1")
	if err != nil {
		f.t.Fatal(err)
	}
	return parsed
}

// pulls lists the requests for an image that the registry has answered, each as manifest or layer, credential and
// status code.
func (f *fixture) pulls(image imagepull.Reference) (out []string) {
	for _, r := range f.node.Registry().Requests() {
		if r.Repository == image.Path() {
			out = append(out, fmt.Sprintf("%s by %q: %d", r.Object, r.Credential, r.Status))
		}
	}
	return slices.Compact(out)
}

// throughKubelet is a controller that makes the kubelet of the real Node pull images by creating Pods.
type throughKubelet struct {
	*fixture

	puller  *kubeletpull.Puller
	wants   []imagepull.Want
	reports []imagepull.Report
}

func newThroughKubelet(f *fixture) *throughKubelet {
	f.t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "images"}}
	if err := f.Create(f.t.Context(), owner); err != nil {
		f.t.Fatal(err)
	}
	registry := f.node.Registry().Host()
	made, err := kubeletpull.New(kubeletpull.Options{
		Namespace: f.namespace, Prefix: "pull", PauseImage: registry + "/pause:1", Labels: map[string]string{"app": "pull"},
		Owner:       metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
		PullSecrets: map[imagepull.Owner][]string{"with": {"registry"}},
		Bounds:      imagepull.Bounds{Pulls: 2, Registries: imagepull.Registries{registry}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return &throughKubelet{fixture: f, puller: made}
}

func (k *throughKubelet) want(image imagepull.Reference, claim imagepull.Claim) {
	k.t.Helper()
	var err error
	if k.wants, err = imagepull.AddClaim(k.wants, k.reports, image, claim); err != nil {
		k.t.Fatal(err)
	}
}

// pass reconciles once, and returns the Pods that were the input of the reconciliation.
func (k *throughKubelet) pass(ctx context.Context) ([]*corev1.Pod, error) {
	var (
		seen   = kubeletpull.Observed{Node: &corev1.Node{}}
		pods   corev1.PodList
		events corev1.EventList
	)
	if err := k.Get(ctx, types.NamespacedName{Name: k.node.Name()}, seen.Node); err != nil {
		return nil, err
	}
	if err := k.List(ctx, &pods, client.InNamespace(k.namespace), client.MatchingLabels{"app": "pull"}); err != nil {
		return nil, err
	}
	if err := k.List(ctx, &events, client.InNamespace(k.namespace)); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		seen.Pods = append(seen.Pods, &pods.Items[i])
	}
	seen.Events = events.Items
	step := k.puller.Next(seen, k.wants, k.reports, time.Now())
	k.reports = step.Reports
	for _, pod := range step.Delete {
		if err := k.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	for _, pod := range step.Create {
		if err := k.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	return seen.Pods, nil
}

// until reconciles until the pull for an owner of the image has the given state.
func (k *throughKubelet) until(image imagepull.Reference, owner imagepull.Owner, state imagepull.State) (standing imagepull.Standing) {
	k.t.Helper()
	controlplanetest.Eventually(k.t, within, func(ctx context.Context) error {
		if _, err := k.pass(ctx); err != nil {
			return err
		}
		if standing = imagepull.Judge(k.wants, k.reports, image, owner, time.Now()); standing.State != state {
			return fmt.Errorf("%+v, reports %+v", standing, k.reports)
		}
		return nil
	})
	return standing
}

func (f *fixture) pullSecret(name string) {
	f.t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte("ci:secret"))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, f.node.Registry().Host(), auth)},
	}
	if err := f.Create(f.t.Context(), secret); err != nil {
		f.t.Fatal(err)
	}
}

// TestPullsThroughKubelet: a Pod with an image volume makes the kubelet pull a private image with the pull
// Secret of the ImagePullJob. A pull without the Secret fails with a reason, even if the image is already on the Node.
func TestPullsThroughKubelet(t *testing.T) {
	f := start(t)
	f.pullSecret("registry")
	k := newThroughKubelet(f)
	image, other := f.privateImage("kept", fakeregistry.Access{}), f.privateImage("closed", fakeregistry.Access{})

	k.want(image, imagepull.Claim{Owner: "with", Since: time.Now(), Policy: imagepull.Policy{Keep: true}})
	k.until(image, "with", imagepull.Done)
	if got := f.pulls(image); !slices.Contains(got, `blob by "user ci": 200`) {
		t.Errorf("pulls %q", got)
	}
	k.want(other, imagepull.Claim{Owner: "without", Since: time.Now()})
	refused := k.until(other, "without", imagepull.Broken)
	if why := refused.Why.String(); !strings.Contains(why, "401") && !strings.Contains(strings.ToLower(why), "authori") {
		t.Errorf("a refused pull says %q", why)
	}
	if got := f.pulls(other); slices.ContainsFunc(got, func(pull string) bool { return strings.HasSuffix(pull, "200") }) {
		t.Errorf("pulls without the Secret: %q", got)
	}
	if condition := imagepull.Condition("ImagesPresent", 1, k.wants, k.reports); condition.Status != metav1.ConditionFalse ||
		!strings.Contains(condition.Message, other.Name()) || strings.Contains(condition.Message, image.Name()) {
		t.Errorf("condition %+v", condition)
	}

	k.wants = imagepull.Release(imagepull.Release(k.wants, "with"), "without")
	controlplanetest.Eventually(t, within, func(ctx context.Context) error {
		left, err := k.pass(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d Pods are left", len(left))
		}
		return err
	})
}

// runtimeOf is the container runtime of the real Node, in the form that a Puller needs.
type runtimeOf struct{ *cri.Runtime }

func (r runtimeOf) Pull(ctx context.Context, want imagepull.Want, credential *pullsecret.Credential) (string, error) {
	return r.Runtime.Pull(ctx, cri.PullRequest{Image: want.Image.Normal(), Credential: credential})
}

func (r runtimeOf) FreeBytes(context.Context) (uint64, error) { return 0, nil }

// credentials is a keyring that applies to all images.
type credentials struct{ pullsecret.Keyring }

func (c credentials) For(context.Context, imagepull.Want) (pullsecret.Keyring, error) {
	return c.Keyring, nil
}

// TestPullsThroughRuntime: an agent pulls private images through CRI, with passwords and identity tokens. The pull
// succeeds even if the registry's token expires or is revoked between the requests for the manifest and for a layer.
// Wrong credentials never appear in the report.
func TestPullsThroughRuntime(t *testing.T) {
	f := start(t)
	runtime, err := cri.New(f.node.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Close)
	host := f.node.Registry().Host()
	password := pullsecret.Credential{Registry: host, Username: "ci", Password: "secret"}
	wrong := pullsecret.Credential{Registry: host, Username: "ci", Password: "wr0ng-passw0rd"}
	identity := pullsecret.Credential{Registry: host, IdentityToken: "ident1ty"}
	for _, test := range []struct {
		name   string
		access fakeregistry.Access
		fault  fakeregistry.Fault
		with   []pullsecret.Credential
		phase  imagepull.Phase
		pull   string // an answer of the registry
	}{
		{name: "basic", with: []pullsecret.Credential{password}, phase: imagepull.Succeeded, pull: `blob by "user ci": 200`},
		{name: "second", with: []pullsecret.Credential{wrong, password}, phase: imagepull.Succeeded, pull: `blob by "user ci": 200`},
		{name: "wrong", with: []pullsecret.Credential{wrong}, phase: imagepull.Failed, pull: `manifest by "unknown": 401`},
		{name: "none", phase: imagepull.Failed, pull: `manifest by "": 401`},
		{
			name: "token", access: fakeregistry.Access{Bearer: true}, with: []pullsecret.Credential{password},
			phase: imagepull.Succeeded, pull: `blob by "token of ci": 200`,
		},
		{
			name: "identity", access: fakeregistry.Access{Bearer: true, IdentityTokens: map[string]string{"ident1ty": "robot"}},
			with: []pullsecret.Credential{identity}, phase: imagepull.Succeeded, pull: `blob by "token of robot": 200`,
		},
		{
			name: "ends", access: fakeregistry.Access{Bearer: true, TokenLife: time.Second}, fault: fakeregistry.Fault{Delay: 1200 * time.Millisecond},
			with: []pullsecret.Credential{password}, phase: imagepull.Succeeded, pull: `blob by "token of ci": 200`,
		},
		{
			name: "revoked", access: fakeregistry.Access{Bearer: true}, fault: fakeregistry.Fault{Delay: 500 * time.Millisecond},
			with: []pullsecret.Credential{password}, phase: imagepull.Succeeded, pull: `blob by "unknown": 401`,
		},
		{name: "cut", fault: fakeregistry.Fault{CutAfter: 1000}, with: []pullsecret.Credential{password}, phase: imagepull.Failed, pull: `blob by "user ci": 200`},
		{
			name: "hangs", fault: fakeregistry.Fault{Hang: true}, with: []pullsecret.Credential{password},
			phase: imagepull.Failed, pull: `blob by "user ci": 200`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			own := *f
			own.t = t
			image := own.privateImage(test.name, test.access)
			own.node.Registry().SetFault(image.Path(), test.fault)
			if test.name == "revoked" {
				go own.revokeAfterManifest(image)
			}
			report := own.pullBy(runtime, image, test.with)
			if report.Phase != test.phase || report.Present != (test.phase == imagepull.Succeeded) {
				t.Errorf("report %+v", report)
			}
			if got := own.pulls(image); !slices.Contains(got, test.pull) {
				t.Errorf("pulls %q, want one of %q", got, test.pull)
			}
			for _, secret := range []string{"secret", "wr0ng-passw0rd", "ident1ty"} {
				if strings.Contains(report.Message, secret) {
					t.Errorf("the report contains a credential: %q", report.Message)
				}
			}
			if test.phase == imagepull.Failed && report.Message == "" {
				t.Error("a failed pull has no message")
			}
		})
	}
}

// revokeAfterManifest revokes all tokens of the registry as soon as the container runtime has requested the digest of
// the tag and the manifest. The runtime gets a token for each of these requests.
func (f *fixture) revokeAfterManifest(image imagepull.Reference) {
	controlplanetest.Eventually(f.t, within, func(context.Context) error {
		if got := strings.Join(f.pulls(image), ", "); strings.Count(got, `manifest by "token of ci": 200`) < 2 {
			return fmt.Errorf("pulls %s", got)
		}
		return nil
	})
	f.node.Registry().Revoke()
}

// pullBy makes a Puller pull an image, with at most 20 s for an attempt, and returns the last report.
func (f *fixture) pullBy(runtime *cri.Runtime, image imagepull.Reference, with []pullsecret.Credential) (report imagepull.Report) {
	f.t.Helper()
	keyring, problems := pullsecret.New(with...)
	if len(problems) > 0 {
		f.t.Fatal(problems)
	}
	wants, err := imagepull.AddClaim(nil, nil, image, imagepull.Claim{Owner: "job", Since: time.Now(), Policy: imagepull.Policy{Timeout: 20 * time.Second}})
	if err != nil {
		f.t.Fatal(err)
	}
	p := puller.New(runtimeOf{runtime}, credentials{keyring}, puller.Options{Bounds: imagepull.Bounds{Registries: imagepull.Registries{"*"}}})
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	}()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		step, err := p.Sync(ctx, wants, nil)
		if err != nil {
			return err
		}
		report = step.Reports[0]
		if report.Phase != imagepull.Succeeded && report.Phase != imagepull.Failed {
			return fmt.Errorf("%+v", report)
		}
		return nil
	})
	return report
}
