package revision_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/revision"
)

const claimsKey = "example.com/claims"

func claimKeys() revision.Keys {
	return revision.Keys{HashLabel: keys.HashLabel, ClaimTemplatesAnnotation: claimsKey}
}

// claimTemplates returns claim templates; the arguments are names and sizes in alternation.
func claimTemplates(namesAndSizes ...string) (out []corev1.PersistentVolumeClaim) {
	for i := 0; i < len(namesAndSizes); i += 2 {
		out = append(out, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: namesAndSizes[i], Labels: map[string]string{"tier": "db"}, Annotations: map[string]string{"backup": "daily"}},
			Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(namesAndSizes[i+1])},
			}},
		})
	}
	return out
}

func mounting(image string, names ...string) *corev1.PodTemplateSpec {
	t := template(image)
	for _, name := range names {
		t.Spec.Containers[0].VolumeMounts = append(t.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	return t
}

// record calls Decide for a template and RecordClaims for the claim templates, and returns the decision and the
// record on the revision.
func record(t *testing.T, tmpl *corev1.PodTemplateSpec, today []corev1.PersistentVolumeClaim, changed bool, existing ...*appsv1.ControllerRevision) (revision.Decision, string) {
	t.Helper()
	h := history(t, claimKeys(), nil, newDecoder(), existing...)
	d, err := h.Decide(tmpl)
	if err == nil {
		err = h.RecordClaims(&d, tmpl, today, changed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if d.Action == revision.Create {
		return d, d.Revision.Annotations[claimsKey]
	}
	return d, d.Annotations[claimsKey]
}

// recorded returns a stored revision with recorded claim templates.
func recorded(t *testing.T, tmpl *corev1.PodTemplateSpec, number int64, claims []corev1.PersistentVolumeClaim) *appsv1.ControllerRevision {
	t.Helper()
	d, _ := record(t, tmpl, claims, true)
	d.Revision.Revision, d.Revision.UID = number, types.UID(tmpl.Spec.Containers[0].Image)
	return d.Revision
}

func TestRecordClaims(t *testing.T) {
	v1 := mounting("app:v1", "data")
	old, none := claimTemplates("data", "1Gi"), recorded(t, v1, 1, nil)
	delete(none.Annotations, claimsKey)
	broken := none.DeepCopy()
	broken.Annotations[claimsKey] = "[{}]"
	other := recorded(t, mounting("app:v2", "data"), 2, old)
	status := claimTemplates("data", "1024Mi")
	status[0].Status.Phase, status[0].Kind, status[0].CreationTimestamp = corev1.ClaimPending, "PersistentVolumeClaim", metav1.Now()
	huge := claimTemplates("data", "1Gi")
	huge[0].Annotations["note"] = strings.Repeat("x", 200<<10)
	for name, tc := range map[string]struct {
		template *corev1.PodTemplateSpec
		today    []corev1.PersistentVolumeClaim
		changed  bool
		existing []*appsv1.ControllerRevision
		action   revision.Action
		writes   bool
		want     []corev1.PersistentVolumeClaim // the recorded templates; nil if there is no valid record
	}{
		"a new revision":                            {template: v1, today: old, action: revision.Create, writes: true, want: old},
		"a new revision without claim templates":    {template: template("app:v1"), action: revision.Create, writes: true, want: []corev1.PersistentVolumeClaim{}},
		"a new revision that cannot be used":        {template: v1, action: revision.Create},
		"too large":                                 {template: v1, today: huge, action: revision.Create},
		"nothing has changed":                       {template: v1, today: old, changed: true, existing: []*appsv1.ControllerRevision{recorded(t, v1, 1, old)}, action: revision.Keep},
		"the same in other words":                   {template: v1, today: status, changed: true, existing: []*appsv1.ControllerRevision{recorded(t, v1, 1, old)}, action: revision.Keep},
		"C-37 they have changed":                    {template: v1, today: claimTemplates("data", "2Gi"), existing: []*appsv1.ControllerRevision{recorded(t, v1, 1, old)}, action: revision.Keep, writes: true, want: claimTemplates("data", "2Gi")},
		"the template goes ahead of its mount":      {template: v1, today: claimTemplates("logs", "1Gi"), changed: true, existing: []*appsv1.ControllerRevision{recorded(t, v1, 1, old)}, action: revision.Keep},
		"grown too large":                           {template: v1, today: huge, existing: []*appsv1.ControllerRevision{recorded(t, v1, 1, old)}, action: revision.Keep, writes: true},
		"somebody else's revision":                  {template: v1, today: old, existing: []*appsv1.ControllerRevision{none}, action: revision.Keep},
		"somebody else's, and the spec has changed": {template: v1, today: old, changed: true, existing: []*appsv1.ControllerRevision{none}, action: revision.Keep, writes: true, want: old},
		"what cannot be read":                       {template: v1, today: old, changed: true, existing: []*appsv1.ControllerRevision{broken}, action: revision.Keep, writes: true, want: old},
		"C-64 a rollback":                           {template: v1, today: claimTemplates("data", "2Gi"), existing: []*appsv1.ControllerRevision{recorded(t, v1, 1, old), other}, action: revision.Bump, writes: true, want: claimTemplates("data", "2Gi")},
	} {
		t.Run(name, func(t *testing.T) {
			d, written := record(t, tc.template, tc.today, tc.changed, tc.existing...)
			_, patched := d.Annotations[claimsKey]
			if d.Action != tc.action || (patched || written != "") != tc.writes {
				t.Fatalf("%s, writes %q, patched %t", d.Action, written, patched)
			}
			if tc.want == nil {
				if written != "" {
					t.Errorf("written %q", written)
				}
				return
			}
			rev := d.Revision.DeepCopy()
			rev.UID, rev.Name, rev.Annotations = "another", "web-another", map[string]string{claimsKey: written}
			h := history(t, claimKeys(), nil, newDecoder(), rev)
			for range 2 { // the second call uses the Decoder's cache
				got, err := h.ClaimTemplatesAt(rev, "web-0", &pvc.Former{Today: claimTemplates("today", "9Gi")})
				if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			}
		})
	}
}

func TestClaimTemplatesAt(t *testing.T) {
	v1 := mounting("app:v1", "data")
	known := recorded(t, v1, 1, claimTemplates("data", "1Gi"))
	taken := known.DeepCopy()
	taken.UID, taken.Annotations = "taken", nil
	today := claimTemplates("logs", "5Gi")
	claims := map[string]*corev1.PersistentVolumeClaim{}
	former := func() *pvc.Former { // a new Former for each reconcile
		return &pvc.Former{
			Today: today, Pods: func(yield func(string) bool) { _ = yield("web-7") },
			Claim: func(name string) (*corev1.PersistentVolumeClaim, bool) { claim, ok := claims[name]; return claim, ok },
		}
	}
	at := func(rev *appsv1.ControllerRevision, update *appsv1.ControllerRevision) (names []string, err error) {
		h := history(t, claimKeys(), nil, newDecoder(), rev)
		h.Update = update
		templates, err := h.ClaimTemplatesAt(rev, "web-0", former())
		for i := range templates {
			names = append(names, templates[i].Name+" "+templates[i].Spec.Resources.Requests.Storage().String())
		}
		return names, err
	}
	check := func(what string, rev, update *appsv1.ControllerRevision, want ...string) {
		t.Helper()
		got, err := at(rev, update)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	check("an earlier revision", known, nil, "data 1Gi")
	check("today's", known, known, "logs 5Gi")
	check("none", nil, known, "logs 5Gi")
	_, err := at(taken, nil)
	if !errors.Is(err, revision.ClaimTemplateUnknown) || !strings.Contains(err.Error(), taken.Name) || !strings.Contains(err.Error(), "data") {
		t.Errorf("of a revision that nobody has written it down with: %v", err)
	}
	claim := claimTemplates("data-web-7", "3Gi")[0]
	claim.Spec.VolumeName = "pv-1"
	claims["data-web-7"] = &claim
	check("another Pod's claim tells", taken, nil, "logs 5Gi", "data 3Gi")
	own := claimTemplates("data-web-0", "2Gi")[0]
	claims["data-web-0"] = &own
	check("the Pod's own claim tells first", taken, nil, "logs 5Gi", "data 2Gi")
	if templates, _ := history(t, claimKeys(), nil, newDecoder(), taken).ClaimTemplatesAt(taken, "web-7", former()); templates[1].Spec.VolumeName != "" {
		t.Error("the template names the volume of the claim that it was read from")
	}
	unreadable := taken.DeepCopy()
	unreadable.UID, unreadable.Data.Raw = "unreadable", []byte(`{}`)
	if _, err := at(unreadable, nil); !errors.Is(err, revision.UnreadableRevision) {
		t.Errorf("of a revision that cannot be read: %v", err)
	}
}
