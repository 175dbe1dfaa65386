package placements_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/placements"
)

// asking is a StatefulSet with the listed annotations, each after "kruise.io/".
func asking(uid types.UID, list ...string) *placements.Workload {
	annotations := map[string]string{}
	for key, value := range pairs(list...) {
		annotations["kruise.io/"+key] = value
	}
	return &placements.Workload{
		Kind:   schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		Object: &metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: uid, Annotations: annotations},
	}
}

const (
	on       = "auto-generate-persistent-pod-state=true"
	off      = "auto-generate-persistent-pod-state=false"
	required = "required-persistent-topology=zone,host"
	prefers1 = "preferred-persistent-topology=rack"
	keeps    = "persistent-pod-annotations=ip"
)

// generated is the spec for the annotations above.
func generated(edits ...func(*v1beta1.PersistentPodStateSpec)) *v1beta1.PersistentPodStateSpec {
	s := &v1beta1.PersistentPodStateSpec{
		TargetReference:            v1beta1.PersistentPodStateTarget{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"},
		RequiredPersistentTopology: &v1beta1.NodeTopologyTerm{Keys: []string{"zone", "host"}},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func TestGenerated(t *testing.T) {
	preferred := func(s *v1beta1.PersistentPodStateSpec) {
		s.PreferredPersistentTopology = []v1beta1.PreferredTopologyTerm{{Weight: 100, Preference: v1beta1.NodeTopologyTerm{Keys: []string{"rack"}}}}
	}
	alone := func(s *v1beta1.PersistentPodStateSpec) { s.RequiredPersistentTopology = nil }
	noting := func(s *v1beta1.PersistentPodStateSpec) {
		s.PersistentPodAnnotations = []v1beta1.PersistentPodAnnotation{{Key: "ip"}}
	}
	for _, c := range []struct {
		name  string
		asked []string
		want  *v1beta1.PersistentPodStateSpec
		wrong bool
	}{
		{"PS-8 required", []string{on, required}, generated(), false},
		{"PS-8 preferred", []string{on, prefers1}, generated(alone, preferred), false},
		{"PS-8 all", []string{on, required, prefers1, keeps}, generated(preferred, noting), false},
		{"PS-8 blanks", []string{on, "required-persistent-topology= zone,,host "}, generated(), false},
		{"PS-8 incomplete", []string{on, keeps}, nil, false},
		{"PS-8 empty", []string{on, "required-persistent-topology=,"}, nil, false},
		{"PS-8 not asked for", []string{required}, nil, false},
		{"PS-8 off", []string{off, required}, nil, false},
		{"PS-8 no keys of labels", []string{on, "required-persistent-topology=a b"}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := placements.Generated(asking("1", c.asked...))
			if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != c.wrong {
				t.Errorf("error %v, (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestGenerate(t *testing.T) {
	type workloads = []*placements.Workload
	state := func(controller types.UID, edits ...func(*v1beta1.PersistentPodState)) *v1beta1.PersistentPodState {
		out := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: *generated()}
		if controller != "" {
			out.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: controller, Controller: new(true)}}
		}
		for _, edit := range edits {
			edit(out)
		}
		return out
	}
	ending := func(w *placements.Workload) *placements.Workload { w.Ending = true; return w }
	advanced := func(w *placements.Workload) *placements.Workload {
		w.Kind.Group = "apps.kruise.io"
		return w
	}
	edited := func(s *v1beta1.PersistentPodState) { s.Spec.RequiredPersistentTopology.Keys = []string{"zone"} }
	lasting := func(s *v1beta1.PersistentPodState) {
		s.Spec.PersistentPodStateRetentionPolicy = v1beta1.PersistentPodStateWhenDeleted
	}
	older := func(s *v1beta1.PersistentPodState) { s.Spec.TargetReference.APIVersion = "apps/v1beta1" }
	renamed := func(s *v1beta1.PersistentPodState) { s.Name = "mine" }
	deleted := func(s *v1beta1.PersistentPodState) { s.DeletionTimestamp = &metav1.Time{} }
	foreign := func(s *v1beta1.PersistentPodState) { s.OwnerReferences[0].Kind, s.OwnerReferences[0].Name = "App", "x" }
	for _, c := range []struct {
		name      string
		workloads workloads
		found     *v1beta1.PersistentPodState
		others    []*v1beta1.PersistentPodState
		want      placements.Action
		why       bool
	}{
		{"PS-8 made", workloads{asking("1", on, required)}, nil, nil, placements.Create, false},
		{"PS-8 there", workloads{asking("1", on, required)}, state("1"), nil, "", false},
		{"PS-8 there, for another version of the kind", workloads{asking("1", on, required)}, state("1", older), nil, "", false},
		{"PS-8 what no annotation stands for is the user's to write", workloads{asking("1", on, required)}, state("1", lasting), nil, "", false},
		{"PS-8 drift beside it is overwritten", workloads{asking("1", on, required)}, state("1", lasting, edited), nil, placements.Update, false},
		{"PS-9 that of a former one, edited", workloads{asking("1", on, required)}, state("", lasting), nil, placements.Adopt, false},
		{"PS-8 drift is overwritten", workloads{asking("1", on, required)}, state("1", edited), nil, placements.Update, false},
		{"PS-9 annotations to record alone", workloads{asking("1", on, required, keeps)}, state("1"), nil, placements.Update, false},
		{"PS-9 taken off", workloads{asking("1", required)}, state("1"), nil, placements.Delete, false},
		{"PS-9 off", workloads{asking("1", off, required)}, state("1"), nil, placements.Delete, false},
		{"PS-9 off, and it is a user's", workloads{asking("1", off, required)}, state(""), nil, "", false},
		{"PS-9 on, and there is a user's", workloads{asking("1", on, required)}, state("", edited), nil, "", true},
		{"PS-9 that of a former one whose Pods were left", workloads{asking("1", on, required)}, state("", older), nil, placements.Adopt, false},
		{"PS-9 it is being deleted", workloads{asking("1", on, required)}, state("", deleted), nil, "", true},
		{"PS-9 on, and there is somebody else's", workloads{asking("1", on, required)}, state("2", foreign), nil, "", true},
		{"PS-9 off, and it is another workload's", workloads{asking("1", off, required)}, state("2"), nil, "", false},
		{"PS-9 that of a former one is being collected", workloads{asking("1", on, required)}, state("2"), nil, "", false},
		{"PS-8 incomplete annotations do nothing", workloads{asking("1", on)}, state("1"), nil, "", false},
		{"PS-8 nor do those that make no sense, but it is said", workloads{asking("1", on, "required-persistent-topology=a b")}, state("1"), nil, "", true},
		{"PS-8 the workload is going", workloads{ending(asking("1", required))}, state("1"), nil, "", false},
		{"PS-8 and nothing is made for it", workloads{ending(asking("1", on, required))}, nil, nil, "", false},
		{"PS-8 it is going itself", workloads{asking("1", required)}, state("1", deleted), nil, "", false},
		{"one of another name is about the workload", workloads{asking("1", on, required)}, nil, []*v1beta1.PersistentPodState{state("", renamed)}, "", true},
		{"the workload is gone", nil, state("1"), nil, "", false},
		{"two kinds of the name: the first that asks", workloads{asking("1"), advanced(asking("2", on, required))}, nil, nil, placements.Create, false},
		{"two kinds of the name: the other has it", workloads{asking("1"), advanced(asking("2", on, required))}, state("2"), nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "two kinds of the name: the other has it" {
				c.found.Spec.TargetReference.APIVersion = "apps.kruise.io/v1beta1"
			}
			got := placements.Generate(c.workloads, c.found, c.others)
			if got.Action != c.want || (got.Why != nil) != c.why || (got.Spec != nil) != (c.want != "" && c.want != placements.Delete) {
				t.Errorf("%+v", got)
			}
		})
	}
}
