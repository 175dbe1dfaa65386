package imagepulljob

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

func gates() map[apps.Gate]bool { return map[apps.Gate]bool{apps.GateImagePullJob: true} }

func TestAdmission(t *testing.T) {
	flags := newFlags()
	flags.registries = []string{"docker.io", "reg.test"}
	options := admission.Options{Gates: gates()}
	server := admissiontest.Server(admission.Handlers(options, endpoint(options, flags)))
	good := admissiontest.Load(t, "testdata/small.yaml", "v1beta1")
	with := func(path string, value any) admissiontest.Tree { return admissiontest.Edit(t, good, path, value) }
	type tree = admissiontest.Tree
	for _, c := range []struct {
		name        string
		object, old tree
		want        []string
	}{
		{"3.1 valid", good, nil, nil},
		{"3.1 no image", with("/spec/image", ""), nil, []string{"spec.image: FieldValueRequired"}},
		{"3.1 no valid image", with("/spec/image", "NGINX:1"), nil, []string{"spec.image: FieldValueInvalid"}},
		{"1.6 a registry that is not allowed", with("/spec/image", "evil.test/a:1"), nil, []string{"spec.image: FieldValueForbidden"}},
		{"3.1 a percentage", with("/spec/parallelism", "10%"), nil, []string{"spec.parallelism: FieldValueInvalid"}},
		{"3.1 a number as a string", with("/spec/parallelism", "10"), nil, nil},
		{"3.1 a negative number", with("/spec/parallelism", -1), nil, []string{"spec.parallelism: FieldValueInvalid"}},
		{"3.1 names and labels", with("/spec/selector", tree{"names": []any{"a"}, "matchLabels": tree{"a": "b"}}), nil, []string{"spec.selector.names: FieldValueForbidden"}},
		{"3.1 a name twice", with("/spec/selector", tree{"names": []any{"a", "a"}}), nil, []string{"spec.selector.names[1]: FieldValueDuplicate"}},
		{"3.1 two selectors", admissiontest.Edit(t, with("/spec/selector", tree{}), "/spec/podSelector", tree{}), nil, []string{"spec.podSelector: FieldValueForbidden"}},
		{"3.1 no valid selector", with("/spec/podSelector", tree{"matchLabels": tree{"a": "b c"}}), nil, []string{"spec.podSelector.matchLabels: FieldValueInvalid"}},
		{"3.1 a deadline below the timeout", with("/spec/completionPolicy/activeDeadlineSeconds", 599), nil, []string{"spec.completionPolicy.activeDeadlineSeconds: FieldValueInvalid"}},
		{"3.1 a deadline that never comes", with("/spec/completionPolicy", tree{"type": "Never", "activeDeadlineSeconds": 900}), nil, []string{"spec.completionPolicy.activeDeadlineSeconds: FieldValueForbidden"}},
		{"3.1 another policy", with("/spec/completionPolicy/type", "Maybe"), nil, []string{"spec.completionPolicy.type: FieldValueNotSupported"}},
		{"3.1 other Secrets", with("/spec/pullSecrets", []any{"a"}), good, []string{"spec.pullSecrets: FieldValueForbidden"}},
		{"IP-64 another image", with("/spec/image", "nginx:2"), good, nil},
		{"IP-64 other Nodes", with("/spec/selector", tree{"names": []any{"a"}}), good, nil},
		{"IP-64 other limits", with("/spec/pullPolicy", tree{"timeoutSeconds": 5}), good, []string{"spec.pullPolicy: FieldValueForbidden"}},
		{"IP-64 another pull policy", with("/spec/imagePullPolicy", "Always"), good, []string{"spec.imagePullPolicy: FieldValueForbidden"}},
		{"IP-64 after the end", with("/spec/pullPolicy", tree{"timeoutSeconds": 5}), with("/status", tree{"desired": 1, "completionTime": "2026-03-01T02:00:00Z"}), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := admissiontest.Answered(server.Validate(t, c.object, c.old))
			if diff := cmp.Diff(c.want, begins(answer.Causes)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, answer)
			}
		})
	}
	closed := admissiontest.Server(admission.Handlers(admission.Options{}, endpoint(admission.Options{}, flags)))
	if answer := admissiontest.Answered(closed.Validate(t, good, nil)); answer.Code != 403 {
		t.Errorf("0.2 the gate is off: %+v", answer)
	}
}

// begins returns the beginning of each cause: its field and its type.
func begins(causes []string) (out []string) {
	for _, cause := range causes {
		colons := 0
		for i, c := range cause {
			if c == ':' {
				colons++
			}
			if colons == 2 {
				cause = cause[:i]
				break
			}
		}
		out = append(out, cause)
	}
	return out
}

// reviewer answers SubjectAccessReviews. may lists, by user, the Secrets that the user may get.
type reviewer struct {
	client.Writer

	may   map[string][]string
	asked int
}

func (r *reviewer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	review, ok := object.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return nil
	}
	r.asked++
	attributes := review.Spec.ResourceAttributes
	for _, name := range r.may[review.Spec.User] {
		review.Status.Allowed = review.Status.Allowed || name == attributes.Name && attributes.Namespace == "default" && attributes.Verb == "get" && attributes.Resource == "secrets"
	}
	return nil
}

// TestAuthor: a user who may not read a Secret cannot use the Secret in a job.
func TestAuthor(t *testing.T) {
	reviews := &reviewer{may: map[string][]string{"jane": {"hers"}}}
	options := admission.Options{Gates: gates(), Client: reviews, Namespace: "kruise-system"}
	server := admissiontest.Server(admission.Handlers(options, endpoint(options, newFlags())))
	job := func(secrets ...any) admissiontest.Tree {
		object := admissiontest.Edit(t, admissiontest.Load(t, "testdata/small.yaml", "v1beta1"), "/metadata/namespace", "default")
		return admissiontest.Edit(t, object, "/spec/pullSecrets", secrets)
	}
	for _, c := range []struct {
		name, user string
		object     admissiontest.Tree
		want       []string
		asked      int
	}{
		{"IP-65 her own", "jane", job("hers"), nil, 1},
		{"IP-65 another's", "jane", job("hers", "his", "his"), []string{"spec.pullSecrets[1]: FieldValueForbidden"}, 2},
		{"IP-65 nobody", "system:anonymous", job("hers"), []string{"spec.pullSecrets[0]: FieldValueForbidden"}, 1},
		{"IP-65 the manager", "system:serviceaccount:kruise-system:kruise-manager", job("his"), nil, 0},
		{"IP-65 another account of the name", "system:serviceaccount:team:kruise-manager", job("his"), []string{"spec.pullSecrets[0]: FieldValueForbidden"}, 1},
		{"IP-65 no Secrets", "jane", job(), nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			reviews.asked = 0
			request := admissiontest.Request(t, admissionv1.Create, c.object, nil)
			request.UserInfo.Username = c.user
			answer := admissiontest.Answered(server.Review(t, admissiontest.Path("validate", c.object), request))
			if diff := cmp.Diff(c.want, begins(answer.Causes)); diff != "" || reviews.asked != c.asked {
				t.Errorf("asked %d times, want %d (-want +got):\n%s", reviews.asked, c.asked, diff)
			}
		})
	}
}
