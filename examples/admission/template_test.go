package admission_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
)

// TestTemplatesAreJudgedByTheAPIServer: if the API server refuses a template in a Deployment, admission refuses the
// template in a kind of this project, with the same fields.
func TestTemplatesAreJudgedByTheAPIServer(t *testing.T) {
	c := start(t)
	raw, err := os.ReadFile("testdata/templates.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var templates map[string]tree
	if err := yaml.Unmarshal(raw, &templates); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for name, template := range templates {
		t.Run(name, func(t *testing.T) {
			spec := tree{"selector": tree{"matchLabels": tree{"app": "x"}}, "template": template}
			want := c.fieldsRefused(t, tree{"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec})
			for _, version := range []string{"v1alpha1", "v1beta1"} {
				got := c.fieldsRefused(t, tree{"apiVersion": "apps.kruise.io/" + version, "kind": "CloneSet", "spec": spec})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("fields (-Deployment +%s):\n%s", version, diff)
				}
			}
			if len(want) > 0 {
				refused++
			}
		})
	}
	if refused < 60 {
		t.Errorf("only %d of %d templates are refused", refused, len(templates))
	}
}

// fieldsRefused creates an object as a dry run and returns the refused fields.
func (c *cluster) fieldsRefused(t *testing.T, object tree) (fields []string) {
	t.Helper()
	err := c.Create(t.Context(), c.named(object, "web"), client.DryRunAll)
	if err == nil {
		return nil
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Fatalf("%v %v: %v", object["apiVersion"], object["kind"], err)
	}
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	slices.Sort(fields)
	return fields
}

// judge is a client that answers dry-run creations of PodTemplates.
type judge struct {
	client.Writer

	asked  []*corev1.PodTemplate
	until  []time.Time // the deadlines of the requests
	answer func(*corev1.PodTemplate) error
}

func (j *judge) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	deadline, _ := ctx.Deadline()
	j.until = append(j.until, deadline)
	o := (&client.CreateOptions{}).ApplyOptions(opts)
	if !slices.Equal(o.DryRun, []string{"All"}) {
		return errors.New("this is no dry run")
	}
	template := obj.(*corev1.PodTemplate)
	j.asked = append(j.asked, template)
	return j.answer(template)
}

// TestTemplateQuestionsShareADeadline: the two requests to validate a template, before and after an update, share a
// deadline, because the API server waits for the response to its own review.
func TestTemplateQuestionsShareADeadline(t *testing.T) {
	template := func(image string) admission.PodTemplate {
		return admission.PodTemplate{PodTemplateSpec: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}}}}
	}
	j := &judge{answer: func(*corev1.PodTemplate) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "x", field.ErrorList{field.Required(field.NewPath("template", "spec"), "")})
	}}
	templates := admission.NewTemplateJudge(admission.Options{Client: j}, "spec.template was")
	templates.Check(t.Context(), "shop", template("app:v2"), template("app:v1"))
	if len(j.until) != 2 || j.until[0].IsZero() || !j.until[0].Equal(j.until[1]) {
		t.Errorf("deadlines %v; want the same for both questions", j.until)
	}
}

func TestTemplates(t *testing.T) {
	kind := schema.GroupKind{Kind: "PodTemplate"}
	// The test's API server refuses images that contain "bad", and mounts of missing volumes.
	strict := func(template *corev1.PodTemplate) error {
		var errs field.ErrorList
		spec, at := &template.Template.Spec, field.NewPath("template", "spec")
		for i := range spec.Containers {
			if c := &spec.Containers[i]; strings.Contains(c.Image, "bad") {
				errs = append(errs, field.Invalid(at.Child("containers").Index(i).Child("image"), c.Image, "is bad"))
			}
			for j, mount := range spec.Containers[i].VolumeMounts {
				if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
					errs = append(errs, field.NotFound(at.Child("containers").Index(i).Child("volumeMounts").Index(j).Child("name"), mount.Name))
				}
			}
		}
		for i := range spec.Volumes {
			if strings.Contains(spec.Volumes[i].Name, "bad") {
				errs = append(errs, field.Invalid(at.Child("volumes").Index(i).Child("name"), spec.Volumes[i].Name, "is bad"))
			}
		}
		if len(errs) == 0 {
			return nil
		}
		return apierrors.NewInvalid(kind, "", errs)
	}
	object := func(containers string, more ...string) tree {
		o := small(t, "v1beta1", append(more, "  updateStrategy: {type: OnDelete}")...)
		var list []any
		if err := yaml.Unmarshal([]byte(containers), &list); err != nil {
			t.Fatal(err)
		}
		o["spec"].(tree)["template"].(tree)["spec"].(tree)["containers"] = list
		return o
	}
	const good, bad, mount = "{name: good, image: a}", "{name: worse, image: bad}", "{name: m, image: a, volumeMounts: [{name: data, mountPath: /d}]}"
	at := "spec.template.spec.containers"
	for _, tc := range []struct {
		name     string
		old, new tree
		answer   func(*corev1.PodTemplate) error
		asked    int
		want     []string // causes
		unsaid   string   // why the template was not validated, for TemplateUnchecked but not for the user
	}{
		{name: "good", new: object("[" + good + "]"), answer: strict, asked: 1},
		{name: "bad", new: object("[" + bad + "]"), answer: strict, asked: 1, want: []string{at + `[0].image: Invalid value: "bad": is bad`}},
		{name: "V-12 a claim is a volume", new: object("["+mount+"]", "  volumeClaimTemplates: [{metadata: {name: data}}]"), answer: strict, asked: 1},
		{name: "no claim, no volume", new: object("[" + mount + "]"), answer: strict, asked: 1, want: []string{at + `[0].volumeMounts[0].name: Not found: "data"`}},
		{
			name: "a claim that is wrong", new: object("["+good+"]", "  volumeClaimTemplates: [{metadata: {name: a}}, {metadata: {name: bad}}]"), answer: strict, asked: 1,
			want: []string{`spec.volumeClaimTemplates[1].metadata.name: Invalid value: "bad": is bad`},
		},
		{name: "unchanged", old: object("[" + bad + "]"), new: admissiontest.Edit(t, object("["+bad+"]"), "/spec/replicas", 5), answer: strict},
		{
			name: "a claim that a mount needs is taken away", asked: 2, answer: strict, new: object("[" + mount + "]"),
			old: object("["+mount+"]", "  volumeClaimTemplates: [{metadata: {name: data}}]"), want: []string{at + `[0].volumeMounts[0].name: Not found: "data"`},
		},
		{name: "what was wrong may stay", old: object("[" + bad + "]"), new: object("[" + bad + "," + good + "]"), answer: strict, asked: 2},
		{name: "in another place, too", old: object("[" + bad + "]"), new: object("[" + good + "," + bad + "]"), answer: strict, asked: 2},
		{
			name: "but nothing more", old: object("[" + bad + "]"), new: object("[{name: good, image: bad}," + bad + "]"), answer: strict, asked: 2,
			want: []string{at + `[0].image: Invalid value: "bad": is bad`},
		},
		{
			name: "forbidden to ask", new: object("[" + bad + "]"), asked: 1, unsaid: "may not",
			answer: func(*corev1.PodTemplate) error {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "podtemplates"}, "", errors.New("may not"))
			},
		},
		{
			name: "no answer", new: object("[" + bad + "]"), asked: 1, unsaid: "deadline",
			answer: func(*corev1.PodTemplate) error { return context.DeadlineExceeded },
		},
		{
			name: "about something else", new: object("[" + bad + "]"), asked: 1, unsaid: "metadata.name",
			answer: func(*corev1.PodTemplate) error {
				return apierrors.NewInvalid(kind, "", field.ErrorList{field.Required(field.NewPath("metadata", "name"), "")})
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operation, j, unchecked := admissionv1.Create, &judge{answer: tc.answer}, ""
			if tc.old != nil {
				operation = admissionv1.Update
			}
			options := admission.Options{Client: j, TemplateUnchecked: func(err error) { unchecked += err.Error() }}
			response := handlersOf(options).Review(t, validatePath, admissiontest.Request(t, operation, tc.new, tc.old))
			var got []string
			if response.Result != nil && response.Result.Details != nil {
				for _, cause := range response.Result.Details.Causes {
					got = append(got, cause.Field+": "+cause.Message)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if len(j.asked) != tc.asked || response.Allowed != (tc.want == nil) {
				t.Errorf("asked %d times, allowed %v", len(j.asked), response.Allowed)
			}
			warnings := strings.Join(response.Warnings, "; ")
			if tc.unsaid == "" {
				if warnings+unchecked != "" {
					t.Errorf("warnings %q, unchecked because of %q", warnings, unchecked)
				}
				return
			}
			if !strings.Contains(warnings, "was not checked") || strings.Contains(warnings, tc.unsaid) || !strings.Contains(unchecked, tc.unsaid) {
				t.Errorf("warnings %q, unchecked because of %q; only the latter is to say %q", warnings, unchecked, tc.unsaid)
			}
		})
	}
}
