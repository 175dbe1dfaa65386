package uniteddeployment

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// served returns a server with the webhooks for UnitedDeployments.
func served(options admission.Options) admissiontest.Server {
	return admissiontest.Server(admission.Handlers(options, endpoint(options)))
}

func loaded(t testing.TB, version string, more ...string) admissiontest.Tree {
	t.Helper()
	return admissiontest.Load(t, "testdata/small.yaml", version, more...)
}

func TestMutate(t *testing.T) {
	want := map[string]any{"/spec/revisionHistoryLimit": 10.0, "/spec/updateStrategy": map[string]any{"type": "Manual", "manualUpdate": map[string]any{}}}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run("UD-1 "+version, func(t *testing.T) {
			object, server := loaded(t, version), served(admission.Options{})
			_, changes := admissiontest.Patch(t, object, server.Mutate(t, object, nil))
			if diff := cmp.Diff(want, changes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			server.Defaulted(t, object, nil)
		})
	}
}

// TestAnswers: the response to an invalid request has the HTTP status code for the type of the error.
func TestAnswers(t *testing.T) {
	good, flat := loaded(t, "v1beta1"), admissiontest.Tree{"type": "InPlaceOnly", "maxUnavailable": 1}
	protected := admissiontest.Edit(t, good, "/metadata/labels", admissiontest.Tree{apps.LabelDeleteProtection: "Cascading"})
	for _, c := range []struct {
		name        string
		object, old admissiontest.Tree
		off         bool
		want        int32
	}{
		{"UD-6 valid", good, nil, false, 0},
		{"UD-6 a wrong type", admissiontest.Edit(t, good, "/spec/replicas", "many"), nil, false, http.StatusUnprocessableEntity},
		{"UD-6 an invalid value", admissiontest.Edit(t, good, "/spec/replicas", -1), nil, false, http.StatusUnprocessableEntity},
		{"UD-6 a wrong type in a template", admissiontest.Edit(t, good, "/spec/template/cloneSetTemplate/spec/replicas", "many"), nil, false, http.StatusUnprocessableEntity},
		{"MG-60 a flat strategy of v1alpha1", admissiontest.Edit(t, loaded(t, "v1alpha1"), "/spec/template/cloneSetTemplate/spec/updateStrategy", flat), nil, false, 0},
		{"UD-6 protected", nil, protected, false, http.StatusForbidden},
		{"UD-6 protected, without Pods", nil, admissiontest.Edit(t, protected, "/spec/replicas", 0), false, 0},
		{"UD-6 protected, without the gate", nil, protected, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := admission.Options{Gates: map[apps.Gate]bool{apps.GateResourcesDeletionProtection: !c.off}}
			if got := served(options).Validate(t, c.object, c.old); got.Allowed != (c.want == 0) || !got.Allowed && got.Result.Code != c.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// writer acts as the API server in dry runs.
type writer struct {
	client.Writer

	asked   []client.Object
	answers func(client.Object) error
}

func (w *writer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	w.asked = append(w.asked, object)
	return w.answers(object)
}

// TestCheckTemplate: the API server validates the workloads of subsets, and errors name the field of the template.
func TestCheckTemplate(t *testing.T) {
	refuse := func(path string) func(client.Object) error {
		return func(client.Object) error {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "X"}, "x", field.ErrorList{field.Required(field.NewPath(path), "no")})
		}
	}
	for _, c := range []struct {
		name    string
		edits   []string
		path    string // refused by the API server
		want    string // refused by admission
		subject client.Object
	}{
		{"UD-1 CloneSets", nil, "template.spec.x", "spec.template.cloneSetTemplate.spec.template.spec.x", &corev1.PodTemplate{}},
		{"UD-1 StatefulSets of this group", advanced(), "template.spec.x", "spec.template.advancedStatefulSetTemplate.spec.template.spec.x", &corev1.PodTemplate{}},
		{"UD-1 StatefulSets", set(), "spec.serviceName", "spec.template.statefulSetTemplate.spec.serviceName", &appsv1.StatefulSet{}},
		{"UD-1 Deployments", deployment(), "spec.strategy", "spec.template.deploymentTemplate.spec.strategy", &appsv1.Deployment{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &writer{answers: refuse(c.path)}
			ud := small(t, c.edits...)
			problems, warning := endpoint(admission.Options{Client: w}).CheckTemplate(t.Context(), ud, nil)
			if len(problems) != 1 || problems[0].Field != c.want || problems[0].Detail != "no (subset a)" || warning != "" {
				t.Errorf("%v, %q", problems, warning)
			}
			if len(w.asked) != 1 || reflect.TypeOf(w.asked[0]) != reflect.TypeOf(c.subject) {
				t.Errorf("asked %d times", len(w.asked))
			}
			asked := len(w.asked)
			if problems, _ := endpoint(admission.Options{Client: w}).CheckTemplate(t.Context(), ud, ud); len(problems) > 0 || len(w.asked) > asked {
				t.Errorf("unchanged: %v", problems)
			}
			w = &writer{answers: func(client.Object) error { return apierrors.NewInternalError(errors.New("down")) }}
			if problems, warning = endpoint(admission.Options{Client: w}).CheckTemplate(t.Context(), ud, nil); len(problems) > 0 || warning == "" {
				t.Errorf("unknown: %v, %q", problems, warning)
			}
		})
	}
}
