package conversion_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func requestToBeta(t *testing.T, obj *v1alpha1.ContainerRecreateRequest) *v1beta1.ContainerRecreateRequest {
	t.Helper()
	result, err := to[v1beta1.ContainerRecreateRequest](obj)
	if err != nil {
		t.Fatalf("ContainerRecreateRequestToV1beta1() = %v", err)
	}
	return result
}

func requestToAlpha(t *testing.T, obj *v1beta1.ContainerRecreateRequest) *v1alpha1.ContainerRecreateRequest {
	t.Helper()
	result, err := to[v1alpha1.ContainerRecreateRequest](obj)
	if err != nil {
		t.Fatalf("ContainerRecreateRequestToV1alpha1() = %v", err)
	}
	return result
}

// requestWords sets values that conversion treats specially, because the filler rarely produces such values.
func (f *filler) requestWords(meta *metav1.ObjectMeta) {
	for key, words := range map[string][]string{
		apps.AnnotationRequestSyncContainerStatuses: {
			"", `[]`, `[{"name":"a","ready":true,"restartCount":3,"containerID":"containerd://ab12"}]`, ` [ {"restartCount":1,"name":"b"} ]`, `{}`, `[{"restartCount":"x"}]`, `null`,
		},
		apps.AnnotationRequestUnreadyAcquired: {
			"", "2026-03-01T02:00:03Z", "2026-03-01T02:00:03.5+01:00", "0001-01-01T00:00:00Z", "yesterday", "2026-03-01t02:00:03z",
		},
	} {
		if word := words[f.choose(len(words))]; word != "" {
			if meta.Annotations == nil {
				meta.Annotations = map[string]string{}
			}
			meta.Annotations[key] = word
		}
	}
}

func randomBetaRequest(data []byte) *v1beta1.ContainerRecreateRequest {
	obj := &v1beta1.ContainerRecreateRequest{}
	obj.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("ContainerRecreateRequest"))
	f := &filler{data}
	f.object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	f.requestWords(&obj.ObjectMeta)
	obj.Status.Phase = []v1beta1.ContainerRecreateRequestPhase{"Pending", "Completed"}[f.choose(2)] // the schema accepts no other phase
	for i := range obj.Status.Conditions {
		c := &obj.Status.Conditions[i]
		c.Type = []string{apps.ConditionPreRecreateGrace, "Other"}[f.choose(2)]
		c.Status = []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse}[f.choose(2)]
		c.LastTransitionTime = metav1.Unix(int64(f.choose(256))+1, 0)
		c.ObservedGeneration <<= f.choose(60) // beyond the precision of a float
	}
	return obj
}

func randomAlphaRequest(data []byte) *v1alpha1.ContainerRecreateRequest {
	obj := &v1alpha1.ContainerRecreateRequest{}
	obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ContainerRecreateRequest"))
	f := &filler{data}
	f.object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	f.requestWords(&obj.ObjectMeta)
	return obj
}

// checkBetaRequest converts an object to the second version and back, twice, as Go types and as JSON. The original
// object must not change.
func checkBetaRequest(t *testing.T, obj *v1beta1.ContainerRecreateRequest) {
	t.Helper()
	untouched := obj.DeepCopy()
	shown := requestToAlpha(t, obj)
	back := requestToBeta(t, shown)
	for _, difference := range []string{
		cmp.Diff(obj, back, cmpopts.EquateEmpty()), cmp.Diff(shown, requestToAlpha(t, back), cmpopts.EquateEmpty()), cmp.Diff(untouched, obj),
	} {
		if difference != "" {
			t.Errorf("through v1alpha1 (-want +got):\n%s", difference)
		}
	}
	viaJSON := fromJSON[v1alpha1.ContainerRecreateRequest](t, converted(t, encoded(t, obj), "v1alpha1"))
	if diff := cmp.Diff(*shown, viaJSON, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("serialised (-want +got):\n%s", diff)
	}
}

func checkAlphaRequest(t *testing.T, obj *v1alpha1.ContainerRecreateRequest) {
	t.Helper()
	untouched := obj.DeepCopy()
	stored := requestToBeta(t, obj)
	back := requestToAlpha(t, stored)
	for _, difference := range []string{
		cmp.Diff(obj, back, cmpopts.EquateEmpty()), cmp.Diff(stored, requestToBeta(t, back), cmpopts.EquateEmpty()), cmp.Diff(untouched, obj),
	} {
		if difference != "" {
			t.Errorf("through v1beta1 (-want +got):\n%s", difference)
		}
	}
	viaJSON := fromJSON[v1beta1.ContainerRecreateRequest](t, converted(t, encoded(t, obj), "v1beta1"))
	if diff := cmp.Diff(*stored, viaJSON, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("serialised (-want +got):\n%s", diff)
	}
}

func FuzzContainerRecreateRequestV1beta1RoundTrip(f *testing.F) {
	addDaemonSetSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkBetaRequest(t, randomBetaRequest(data)) })
}

func FuzzContainerRecreateRequestV1alpha1RoundTrip(f *testing.F) {
	addDaemonSetSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkAlphaRequest(t, randomAlphaRequest(data)) })
}

// FuzzContainerRecreateRequestNote: whatever users write into the annotation, the conversion result is valid.
func FuzzContainerRecreateRequestNote(f *testing.F) {
	f.Add(`{"fields":[{"path":["status","conditions"],"kept":7}]}`, `[]`, "")
	f.Add(`{"fields":[{"path":["status","conditions"],"kept":[{"type":"A","status":"True","lastTransitionTime":"2026-03-01t02:00:03z"}]}]}`, `[{}]`, "2026-03-01T02:00:03Z")
	f.Add(`{"fields":[{"path":["status","phase"],"kept":"Completed"},{"path":[]}]}`, `[{"name":"a"},null]`, "10000-01-01T00:00:00Z")
	f.Add(`{"fields":[{"path":["metadata","annotations","crr.apps.kruise.io/unready-acquired"],"kept":["x"]}]}`, ``, "2026-03-01T02:00:03Z")
	f.Fuzz(func(t *testing.T, note, statuses, unready string) {
		alpha := &v1alpha1.ContainerRecreateRequest{}
		alpha.Status.Phase = v1beta1.ContainerRecreateRequestPending
		alpha.Annotations = map[string]string{
			apps.AnnotationV1beta1Only: note, apps.AnnotationRequestSyncContainerStatuses: statuses, apps.AnnotationRequestUnreadyAcquired: unready,
		}
		beta := requestToBeta(t, alpha)
		if beta.Status.Phase != v1beta1.ContainerRecreateRequestPending {
			t.Errorf("phase %q", beta.Status.Phase)
		}
		stored(t, converted(t, encoded(t, beta), "v1alpha1"))
		requestToAlpha(t, beta)
	})
}

// TestRandomContainerRecreateRequestRoundTrips checks a fixed set of random objects in every run; the fuzz test
// checks further objects.
func TestRandomContainerRecreateRequestRoundTrips(t *testing.T) {
	const rounds, length = 500, 400
	random := rand.NewChaCha8([32]byte{3})
	data := make([]byte, length)
	for range rounds {
		if _, err := random.Read(data); err != nil {
			t.Fatal(err)
		}
		checkBetaRequest(t, randomBetaRequest(data))
		checkAlphaRequest(t, randomAlphaRequest(data))
		if t.Failed() {
			t.Fatalf("with data %q", data)
		}
	}
}

const (
	oneStatus = `[{"name":"app","ready":true,"restartCount":3,"containerID":"containerd://ab12"}]`
	instant   = "2026-03-01T02:00:03Z"
)

func graceSince(at time.Time) metav1.Condition {
	return metav1.Condition{Type: "PreRecreateGrace", Status: "True", Reason: "PreRecreateGrace", LastTransitionTime: metav1.NewTime(at)}
}

func TestContainerRecreateRequestToV1beta1(t *testing.T) {
	at := time.Date(2026, 3, 1, 2, 0, 3, 0, time.UTC)
	snapshot := []v1beta1.ContainerRecreateRequestContainerStatus{{Name: "app", Ready: true, RestartCount: 3, ContainerID: "containerd://ab12"}}
	annotated := func(statuses, unready string) map[string]string {
		annotations := map[string]string{"other": "1"}
		if statuses != "" {
			annotations[apps.AnnotationRequestSyncContainerStatuses] = statuses
		}
		if unready != "" {
			annotations[apps.AnnotationRequestUnreadyAcquired] = unready
		}
		return annotations
	}
	type status = v1beta1.ContainerRecreateRequestStatus
	for _, tc := range []struct {
		name              string
		phase             v1beta1.ContainerRecreateRequestPhase
		statuses, unready string
		want              status
		wantAnnotations   map[string]string
		wantNote          bool
	}{
		{"CR-40 no annotation", "Pending", "", "", status{Phase: "Pending"}, annotated("", ""), false},
		{"CR-40 the snapshot", "Pending", oneStatus, "", status{Phase: "Pending", ContainerStatusSnapshot: snapshot}, annotated("", ""), false},
		{"CR-40 the snapshot spelled in another way", "Pending", " " + oneStatus, "", status{Phase: "Pending", ContainerStatusSnapshot: snapshot}, annotated("", ""), true},
		{"CR-40 what is no snapshot stays", "Pending", "{}", "", status{Phase: "Pending"}, annotated("{}", ""), false},
		{"CR-40 an empty snapshot stays", "Pending", "[]", "", status{Phase: "Pending"}, annotated("[]", ""), false},
		{"CR-40 the condition", "Recreating", "", instant, status{Phase: "Recreating", Conditions: []metav1.Condition{graceSince(at)}}, annotated("", ""), false},
		{
			"CR-40 a time with an offset", "Recreating", "", "2026-03-01T03:00:03+01:00",
			status{Phase: "Recreating", Conditions: []metav1.Condition{graceSince(at)}},
			annotated("", ""), true,
		},
		{"CR-40 what is no time stays", "Recreating", "", "yesterday", status{Phase: "Recreating"}, annotated("", "yesterday"), false},
		{"CR-40 a status without a phase would not be valid", "", oneStatus, instant, status{}, annotated(oneStatus, instant), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := &v1alpha1.ContainerRecreateRequest{}
			in.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ContainerRecreateRequest"))
			in.Annotations, in.Status.Phase = annotated(tc.statuses, tc.unready), tc.phase
			got := requestToBeta(t, in)
			if _, note := got.Annotations[apps.AnnotationV1alpha1Only]; note != tc.wantNote {
				t.Errorf("note %q, want one: %t", got.Annotations[apps.AnnotationV1alpha1Only], tc.wantNote)
			}
			delete(got.Annotations, apps.AnnotationV1alpha1Only)
			if diff := cmp.Diff(tc.wantAnnotations, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			checkAlphaRequest(t, in)
		})
	}
}

func TestContainerRecreateRequestToV1alpha1(t *testing.T) {
	at := time.Date(2026, 3, 1, 2, 0, 3, 0, time.UTC)
	other := metav1.Condition{Type: "Other", Status: "True", Reason: "Because", LastTransitionTime: metav1.NewTime(at)}
	lost := graceSince(at)
	lost.Status = "False"
	said := graceSince(at)
	said.Message = "hello"
	for _, tc := range []struct {
		name       string
		conditions []metav1.Condition
		text       string // the annotation on the v1beta1 object
		want       string
		wantNote   bool
	}{
		{"CR-40 none", nil, "", "", false},
		{"CR-40 the condition", []metav1.Condition{graceSince(at)}, "", instant, false},
		{"CR-40 the condition among others", []metav1.Condition{other, graceSince(at)}, "", instant, true},
		{"CR-40 a condition that is not True", []metav1.Condition{lost}, "", "", true},
		{"CR-40 a message", []metav1.Condition{said}, "", instant, true},
		{"CR-40 another condition", []metav1.Condition{other}, "", "", true},
		{"CR-40 an annotation that says what is not so", nil, "2020-03-01T02:00:03Z", "", true},
		{"CR-40 an annotation that says nothing", nil, "x", "x", false},
		{"CR-60 a time after an annotation that said nothing", []metav1.Condition{graceSince(at)}, "x", instant, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := &v1beta1.ContainerRecreateRequest{}
			in.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("ContainerRecreateRequest"))
			in.Status = v1beta1.ContainerRecreateRequestStatus{Phase: "Recreating", Conditions: tc.conditions}
			if tc.text != "" {
				in.Annotations = map[string]string{apps.AnnotationRequestUnreadyAcquired: tc.text}
			}
			got := requestToAlpha(t, in)
			if text := got.Annotations[apps.AnnotationRequestUnreadyAcquired]; text != tc.want {
				t.Errorf("annotation %q, want %q", text, tc.want)
			}
			if _, note := got.Annotations[apps.AnnotationV1beta1Only]; note != tc.wantNote {
				t.Errorf("note %q, want one: %t", got.Annotations[apps.AnnotationV1beta1Only], tc.wantNote)
			}
			checkBetaRequest(t, in)
		})
	}
}

// TestContainerRecreateRequestMergeRule edits the converted object, in the version that lacks some of the original's
// fields, and converts the object back.
func TestContainerRecreateRequestMergeRule(t *testing.T) {
	at := time.Date(2026, 3, 1, 2, 0, 3, 0, time.UTC)
	other := metav1.Condition{Type: "Other", Status: "True", Reason: "Because", LastTransitionTime: metav1.NewTime(at)}
	stored := &v1beta1.ContainerRecreateRequest{}
	stored.Status = v1beta1.ContainerRecreateRequestStatus{Phase: "Recreating", Conditions: []metav1.Condition{other, graceSince(at)}}
	t.Run("CR-40 an unrelated edit keeps other conditions", func(t *testing.T) {
		shown := requestToAlpha(t, stored)
		shown.Status.Phase = "Completed"
		if diff := cmp.Diff(stored.Status.Conditions, requestToBeta(t, shown).Status.Conditions); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("CR-40 a new time in v1alpha1 wins", func(t *testing.T) {
		shown := requestToAlpha(t, stored)
		shown.Annotations[apps.AnnotationRequestUnreadyAcquired] = "2026-03-01T02:00:04Z"
		if diff := cmp.Diff([]metav1.Condition{graceSince(at.Add(time.Second))}, requestToBeta(t, shown).Status.Conditions); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("CR-40 a new snapshot in v1alpha1 wins", func(t *testing.T) {
		shown := requestToAlpha(t, stored)
		shown.Annotations[apps.AnnotationRequestSyncContainerStatuses] = oneStatus
		if n := len(requestToBeta(t, shown).Status.ContainerStatusSnapshot); n != 1 {
			t.Errorf("%d containers in the snapshot, want 1", n)
		}
	})
}

// TestHostileContainerRecreateRequests converts unusual objects that users can store. No conversion may fail or lose
// the spec.
func TestHostileContainerRecreateRequests(t *testing.T) {
	long := strings.Repeat("x", 262_100)
	for name, object := range map[string]string{
		"numbers that no Go type takes": `{"spec":{"containers":[{"name":"a","preStop":{"httpGet":{"port":3000000000}}}]},"status":{"phase":"Pending"}}`,
		"times that no Go type takes":   `{"spec":{},"status":{"phase":"Pending","completionTime":"2026-01-01t00:00:00z","conditions":[{"lastTransitionTime":"2026-01-01t00:00:00z"}]}}`,
		"nulls":                         `{"metadata":null,"spec":null,"status":null}`,
		"null annotations":              `{"metadata":{"annotations":null},"spec":{},"status":{"phase":"Pending","conditions":null,"containerStatusSnapshot":null}}`,
		"annotations that leave no room": `{"metadata":{"annotations":{"a":"` + long + `"}},"spec":{},` +
			`"status":{"phase":"Pending","conditions":[{"type":"PreRecreateGrace","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
	} {
		for from, to := range map[string]string{"v1beta1": "v1alpha1", "v1alpha1": "v1beta1"} {
			t.Run(from+" "+name, func(t *testing.T) {
				object := []byte(`{"apiVersion":"apps.kruise.io/` + from + `","kind":"ContainerRecreateRequest",` + strings.TrimPrefix(object, "{"))
				there := converted(t, object, to)
				stored(t, there)
				back := converted(t, there, from)
				stored(t, back)
				was, is := fromJSON[map[string]any](t, object), fromJSON[map[string]any](t, back)
				if diff := cmp.Diff(was["spec"], is["spec"], cmpopts.EquateEmpty()); diff != "" && was["spec"] != nil {
					t.Errorf("spec (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestCheckContainerRecreateRequest: Check refuses an object if the text of an annotation does not fit into the
// converted object.
func TestCheckContainerRecreateRequest(t *testing.T) {
	object := func(padding int) []byte {
		return []byte(`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"ContainerRecreateRequest","metadata":{"annotations":{"a":"` + strings.Repeat("x", padding) +
			`","crr.apps.kruise.io/unready-acquired":"2026-03-01T03:00:03+01:00"}},"spec":{},"status":{"phase":"Pending"}}`)
	}
	for padding, want := range map[int][]string{1: nil, 200_000: nil, 262_010: {"metadata.annotations"}} {
		var got []string
		for _, err := range conversion.Check(object(padding)) {
			got = append(got, err.Field)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with %d characters more (-want +got):\n%s", padding, diff)
		}
	}
}
