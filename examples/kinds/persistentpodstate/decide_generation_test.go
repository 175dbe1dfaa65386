package persistentpodstate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
)

// asking returns a StatefulSet with annotations. list contains their keys, without the prefix "kruise.io/", and their
// values.
func asking(uid types.UID, list ...string) *workloads.Workload {
	annotations := map[string]string{}
	for key, value := range pairs(list...) {
		annotations["kruise.io/"+key] = value
	}
	return &workloads.Workload{
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

// wantedSpec returns the spec that the annotations of asking request.
func wantedSpec(edits ...func(*v1beta1.PersistentPodStateSpec)) *v1beta1.PersistentPodStateSpec {
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
		{"PS-8 required", []string{on, required}, wantedSpec(), false},
		{"PS-8 preferred", []string{on, prefers1}, wantedSpec(alone, preferred), false},
		{"PS-8 all", []string{on, required, prefers1, keeps}, wantedSpec(preferred, noting), false},
		{"PS-8 blanks", []string{on, "required-persistent-topology= zone,,host "}, wantedSpec(), false},
		{"PS-8 incomplete", []string{on, keeps}, nil, false},
		{"PS-8 empty", []string{on, "required-persistent-topology=,"}, nil, false},
		{"PS-8 not asked for", []string{required}, nil, false},
		{"PS-8 off", []string{off, required}, nil, false},
		{"PS-8 no keys of labels", []string{on, "required-persistent-topology=a b"}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := generated(asking("1", c.asked...))
			if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != c.wrong {
				t.Errorf("error %v, (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestGenerate(t *testing.T) {
	type some = []*workloads.Workload
	state := func(controller types.UID, edits ...func(*v1beta1.PersistentPodState)) *v1beta1.PersistentPodState {
		out := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: *wantedSpec()}
		if controller != "" {
			out.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: controller, Controller: new(true)}}
		}
		for _, edit := range edits {
			edit(out)
		}
		return out
	}
	ending := func(w *workloads.Workload) *workloads.Workload { w.Ending = true; return w }
	advanced := func(w *workloads.Workload) *workloads.Workload {
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
		workloads some
		found     *v1beta1.PersistentPodState
		others    []*v1beta1.PersistentPodState
		want      action
		why       bool
	}{
		{"PS-8 made", some{asking("1", on, required)}, nil, nil, create, false},
		{"PS-8 there", some{asking("1", on, required)}, state("1"), nil, "", false},
		{"PS-8 there, for another version of the kind", some{asking("1", on, required)}, state("1", older), nil, "", false},
		{"PS-8 what no annotation stands for is the user's to write", some{asking("1", on, required)}, state("1", lasting), nil, "", false},
		{"PS-8 drift beside it is overwritten", some{asking("1", on, required)}, state("1", lasting, edited), nil, update, false},
		{"PS-9 that of a former one, edited", some{asking("1", on, required)}, state("", lasting), nil, adopt, false},
		{"PS-8 drift is overwritten", some{asking("1", on, required)}, state("1", edited), nil, update, false},
		{"PS-9 annotations to record alone", some{asking("1", on, required, keeps)}, state("1"), nil, update, false},
		{"PS-9 taken off", some{asking("1", required)}, state("1"), nil, Delete, false},
		{"PS-9 off", some{asking("1", off, required)}, state("1"), nil, Delete, false},
		{"PS-9 off, and it is a user's", some{asking("1", off, required)}, state(""), nil, "", false},
		{"PS-9 on, and there is a user's", some{asking("1", on, required)}, state("", edited), nil, "", true},
		{"PS-9 that of a former one whose Pods were left", some{asking("1", on, required)}, state("", older), nil, adopt, false},
		{"PS-9 it is being deleted", some{asking("1", on, required)}, state("", deleted), nil, "", true},
		{"PS-9 on, and there is somebody else's", some{asking("1", on, required)}, state("2", foreign), nil, "", true},
		{"PS-9 off, and it is another workload's", some{asking("1", off, required)}, state("2"), nil, "", false},
		{"PS-9 that of a former one is being collected", some{asking("1", on, required)}, state("2"), nil, "", false},
		{"PS-8 incomplete annotations do nothing", some{asking("1", on)}, state("1"), nil, "", false},
		{"PS-8 nor do those that make no sense, but it is said", some{asking("1", on, "required-persistent-topology=a b")}, state("1"), nil, "", true},
		{"PS-8 the workload is going", some{ending(asking("1", required))}, state("1"), nil, "", false},
		{"PS-8 and nothing is made for it", some{ending(asking("1", on, required))}, nil, nil, "", false},
		{"PS-8 it is going itself", some{asking("1", required)}, state("1", deleted), nil, "", false},
		{"one of another name is about the workload", some{asking("1", on, required)}, nil, []*v1beta1.PersistentPodState{state("", renamed)}, "", true},
		{"the workload is gone", nil, state("1"), nil, "", false},
		{"two kinds of the name: the first that asks", some{asking("1"), advanced(asking("2", on, required))}, nil, nil, create, false},
		{"two kinds of the name: the other has it", some{asking("1"), advanced(asking("2", on, required))}, state("2"), nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "two kinds of the name: the other has it" {
				c.found.Spec.TargetReference.APIVersion = "apps.kruise.io/v1beta1"
			}
			got := generate(c.workloads, c.found, c.others)
			if got.Action != c.want || (got.Why != nil) != c.why || (got.Spec != nil) != (c.want != "" && c.want != Delete) {
				t.Errorf("%+v", got)
			}
		})
	}
}
