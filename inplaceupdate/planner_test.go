package inplaceupdate_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

func newRevision(t testing.TB, uid types.UID, template *template) *appsv1.ControllerRevision {
	t.Helper()
	data, err := revision.Encode(template)
	if err != nil {
		t.Fatal(err)
	}
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-" + string(uid), UID: uid}, Data: runtime.RawExtension{Raw: data}}
}

func raw(uid types.UID, data string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-" + string(uid), UID: uid}, Data: runtime.RawExtension{Raw: []byte(data)}}
}

func TestPlanner(t *testing.T) {
	v1, v2 := newRevision(t, "1", newTemplate()), newRevision(t, "2", newTemplate(image("app", "app:v2")))
	const claimsChanged reason.Code = "ClaimsChanged"
	refuse := func(from, to *appsv1.ControllerRevision) reason.List {
		if from.Annotations["claims"] != to.Annotations["claims"] {
			return reason.List{{Code: claimsChanged, Path: "metadata.annotations[claims]"}}
		}
		return nil
	}
	otherClaims := newRevision(t, "4", newTemplate(image("app", "app:v2")))
	otherClaims.Annotations = map[string]string{"claims": "7"}
	const data = `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"a"}]}}`
	for _, tc := range []struct {
		name     string
		from, to *appsv1.ControllerRevision
		want     []string
	}{
		{"U-1 the Pod's revision is not known", nil, v2, []string{"RevisionMissing metadata.labels"}},
		{"U-1 the Pod's revision cannot be read", raw("b", "{}"), v2, []string{"UnreadableRevision data"}},
		{"U-1 the target cannot be read", v1, raw("b", "{}"), []string{"UnreadableRevision data"}},
		{"U-2 possible", v1, v2, nil},
		{"U-4 outside the template", raw("o1", data+`}}`), raw("o2", data+`,"x":1}}`), []string{"OutsideTemplate data"}},
		{"U-4 beside the spec", raw("o1", data+`}}`), raw("o3", data+`},"x":1}`), []string{"OutsideTemplate data"}},
		{"U-4 the same outside", raw("o2", data+`,"x":1}}`), raw("o4", data+`,"x":1}}`), nil},
		{"U-6 reasons of the caller", v1, otherClaims, []string{"ClaimsChanged metadata.annotations[claims]"}},
		{"U-6 none of the caller's", newRevision(t, "5", newTemplate()), v2, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			planner := inplaceupdate.NewPlanner(mustNew(inplaceupdate.Config{}), revision.NewDecoder(10, nil), refuse)
			got := planner.Plan(tc.from, tc.to)
			if diff := cmp.Diff(tc.want, codesAndPaths(got.Blocking)); diff != "" {
				t.Errorf("blocking (-want +got):\n%s", diff)
			}
			if len(tc.want) > 0 && len(got.Images) > 0 {
				t.Errorf("a plan that is not possible has images: %v", got.Images)
			}
		})
	}
}

func TestPlannerKeepsPlans(t *testing.T) {
	asked := 0
	count := func(_, _ *appsv1.ControllerRevision) reason.List { asked++; return nil }
	planner := inplaceupdate.NewPlanner(mustNew(inplaceupdate.Config{}), revision.NewDecoder(10, nil), count)
	v1, v2 := newRevision(t, "1", newTemplate()), newRevision(t, "2", newTemplate(image("app", "app:v2")))
	if first := planner.Plan(v1, v2); first != planner.Plan(v1, v2) || asked != 1 {
		t.Errorf("the second Pod of a pair is planned again: %d times", asked)
	}
	if back := planner.Plan(v2, v1); back.Images["app"] != "app:v1" || asked != 2 {
		t.Errorf("the way back = %+v", back)
	}
	if n := testing.AllocsPerRun(10, func() { planner.Plan(v1, v2) }); n != 0 {
		t.Errorf("%v allocations for a known pair, want none", n)
	}
	rewritten := v2.DeepCopy() // its annotations; the caller's reasons may depend on annotations
	rewritten.ResourceVersion = "9"
	for range 3 {
		planner.Plan(v1, rewritten)
	}
	if asked != 3 {
		t.Errorf("planned %d times, want once more for the revision that was written", asked)
	}
	// A prediction asks about revisions before their creation. All such revisions have the same, empty UID.
	for _, to := range []string{"app:v3", "app:v4"} {
		if got := planner.Plan(v1, newRevision(t, "", newTemplate(image("app", to)))); got.Images["app"] != to {
			t.Errorf("plan to %s sets %s", to, got.Images["app"])
		}
	}
}

// TestPlannerForgets: a planner lives as long as its process, while revisions come and go.
func TestPlannerForgets(t *testing.T) {
	asked := map[types.UID]int{}
	count := func(from, _ *appsv1.ControllerRevision) reason.List { asked[from.UID]++; return nil }
	planner := inplaceupdate.NewPlanner(mustNew(inplaceupdate.Config{}), revision.NewDecoder(2, nil), count)
	v1, v2 := newRevision(t, "1", newTemplate()), newRevision(t, "2", newTemplate(image("app", "app:v2")))
	planner.Plan(v1, v2)
	for i := range 10_000 {
		old := v1.DeepCopy()
		old.UID = types.UID(strconv.Itoa(100 + i))
		planner.Plan(old, v2)
	}
	for i := range 10_000 { // a single revision, written again and again
		old := v2.DeepCopy()
		old.ResourceVersion = strconv.Itoa(i)
		planner.Plan(old, v2)
	}
	if planner.Plan(v1, v2); asked["1"] != 2 {
		t.Errorf("the first of 10,000 pairs was planned %d times, want it forgotten", asked["1"])
	}
}

func TestPlannerIsSafeForConcurrentUse(t *testing.T) {
	planner := inplaceupdate.NewPlanner(mustNew(inplaceupdate.Config{}), revision.NewDecoder(10, nil), nil)
	v1, v2 := newRevision(t, "1", newTemplate()), newRevision(t, "2", newTemplate(image("app", "app:v2")))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if plan := planner.Plan(v1, v2); plan.Images["app"] != "app:v2" {
				t.Errorf("plan %+v", plan)
			}
		})
	}
	group.Wait()
}

// TestPlannerNeverGuesses: missing arguments block, because a plan without reasons is possible.
func TestPlannerNeverGuesses(t *testing.T) {
	v1, v2 := newRevision(t, "1", newTemplate()), newRevision(t, "2", newTemplate(image("app", "app:v2")))
	updater, decoder := newUpdater(), revision.NewDecoder(10, nil)
	for _, tc := range []struct {
		name     string
		planner  *inplaceupdate.Planner
		from, to *appsv1.ControllerRevision
		want     reason.Code
	}{
		{"no updater", inplaceupdate.NewPlanner(nil, decoder, nil), v1, v2, inplaceupdate.InvalidConfig},
		{"no decoder", inplaceupdate.NewPlanner(updater, nil, nil), v1, v2, inplaceupdate.InvalidConfig},
		{"the zero value", &inplaceupdate.Planner{}, v1, v2, inplaceupdate.InvalidConfig},
		{"no target", inplaceupdate.NewPlanner(updater, decoder, nil), v1, nil, inplaceupdate.RevisionMissing},
	} {
		if plan := tc.planner.Plan(tc.from, tc.to); plan.Possible() || !errors.Is(plan.Blocking, tc.want) {
			t.Errorf("%s: blocking %v, want %s", tc.name, plan.Blocking, tc.want)
		}
	}
	if list := inplaceupdate.Undecodable(errors.New("broken")); !errors.Is(list, revision.UnreadableRevision) {
		t.Errorf("an error without reasons: %v", list)
	}
}
