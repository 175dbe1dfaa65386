package uniteddeployment_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/uniteddeployment"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// defaulted returns a spec with the defaults that every object gets, after a change.
func defaulted(change func(*v1beta1.UnitedDeploymentSpec)) v1beta1.UnitedDeploymentSpec {
	spec := v1beta1.UnitedDeploymentSpec{
		Replicas: new(int32(1)), RevisionHistoryLimit: new(int32(10)),
		UpdateStrategy: v1beta1.UnitedDeploymentUpdateStrategy{
			Type: v1beta1.ManualUpdateStrategyType, ManualUpdate: &v1beta1.ManualUpdate{},
		},
	}
	change(&spec)
	return spec
}

func topology(subsets ...v1beta1.Subset) v1beta1.Topology { return v1beta1.Topology{Subsets: subsets} }

func count(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) }

func adaptive(settings *v1beta1.AdaptiveUnitedDeploymentStrategy) v1beta1.Topology {
	return v1beta1.Topology{ScheduleStrategy: v1beta1.UnitedDeploymentScheduleStrategy{
		Type: v1beta1.AdaptiveSchedule, Adaptive: settings,
	}}
}

func TestDefaultFillsIn(t *testing.T) {
	for _, c := range []struct {
		name string
		spec v1beta1.UnitedDeploymentSpec
		want v1beta1.UnitedDeploymentSpec
	}{
		{"UD-1 nothing is written", v1beta1.UnitedDeploymentSpec{}, defaulted(func(*v1beta1.UnitedDeploymentSpec) {})},
		{
			"UD-1 written values stay", v1beta1.UnitedDeploymentSpec{
				Replicas: new(int32(0)), RevisionHistoryLimit: new(int32(0)),
				UpdateStrategy: v1beta1.UnitedDeploymentUpdateStrategy{Type: "Odd"},
			}, v1beta1.UnitedDeploymentSpec{
				Replicas: new(int32(0)), RevisionHistoryLimit: new(int32(0)),
				UpdateStrategy: v1beta1.UnitedDeploymentUpdateStrategy{Type: "Odd"},
			},
		},
		{
			"UD-1 minimums beside a maximum",
			v1beta1.UnitedDeploymentSpec{Topology: topology(v1beta1.Subset{Name: "a", MaxReplicas: count(2)}, v1beta1.Subset{Name: "b"})},
			defaulted(func(s *v1beta1.UnitedDeploymentSpec) {
				s.Topology = topology(v1beta1.Subset{Name: "a", MinReplicas: count(0), MaxReplicas: count(2)}, v1beta1.Subset{Name: "b", MinReplicas: count(0)})
			}),
		},
		{
			"UD-1 no minimums beside shares",
			v1beta1.UnitedDeploymentSpec{Topology: topology(v1beta1.Subset{Name: "a", MaxReplicas: count(2)}, v1beta1.Subset{Name: "b", Replicas: count(1)})},
			defaulted(func(s *v1beta1.UnitedDeploymentSpec) {
				s.Topology = topology(v1beta1.Subset{Name: "a", MaxReplicas: count(2)}, v1beta1.Subset{Name: "b", Replicas: count(1)})
			}),
		},
		{
			"UD-1 no minimums without bounds",
			v1beta1.UnitedDeploymentSpec{Topology: topology(v1beta1.Subset{Name: "a"})},
			defaulted(func(s *v1beta1.UnitedDeploymentSpec) { s.Topology = topology(v1beta1.Subset{Name: "a"}) }),
		},
		{
			"UD-1 times of type Adaptive",
			v1beta1.UnitedDeploymentSpec{Topology: adaptive(nil)},
			defaulted(func(s *v1beta1.UnitedDeploymentSpec) {
				s.Topology = adaptive(&v1beta1.AdaptiveUnitedDeploymentStrategy{RescheduleCriticalSeconds: new(int32(30)), UnschedulableDuration: new(int32(300))})
			}),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := &v1beta1.UnitedDeployment{Spec: c.spec}
			for range 2 {
				api.Default(obj, nil, api.DefaultOptions{})
				if diff := cmp.Diff(c.want, obj.Spec); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestDefaultOfTemplates: only templates of Kubernetes' StatefulSets get defaults, and only if the template changes.
func TestDefaultOfTemplates(t *testing.T) {
	pod := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:v1"}}}}
	sets := v1beta1.SubsetTemplate{StatefulSetTemplate: &v1beta1.StatefulSetTemplateSpec{Spec: appsv1.StatefulSetSpec{
		Template: pod, VolumeClaimTemplates: make([]corev1.PersistentVolumeClaim, 1),
	}}}
	clones := v1beta1.SubsetTemplate{CloneSetTemplate: &v1beta1.CloneSetTemplateSpec{Spec: v1beta1.CloneSetSpec{Template: pod}}}
	replaced := *sets.DeepCopy()
	replaced.StatefulSetTemplate.Spec.ServiceName = "s"
	for _, c := range []struct {
		name         string
		next, stored *v1beta1.SubsetTemplate
		off          bool
		want         corev1.DNSPolicy
		phase        corev1.PersistentVolumeClaimPhase
	}{
		{"UD-1 created", &sets, nil, false, corev1.DNSClusterFirst, corev1.ClaimPending},
		{"UD-1 changed", &replaced, &sets, false, corev1.DNSClusterFirst, corev1.ClaimPending},
		{"UD-1 unchanged", &sets, &sets, false, "", ""},
		{"UD-1 gate TemplateNoDefaults", &sets, nil, true, "", ""},
		{"UD-1 CloneSets", &clones, nil, false, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := &v1beta1.UnitedDeployment{Spec: v1beta1.UnitedDeploymentSpec{Template: *c.next.DeepCopy()}}
			var stored *v1beta1.UnitedDeployment
			if c.stored != nil {
				stored = &v1beta1.UnitedDeployment{Spec: v1beta1.UnitedDeploymentSpec{Template: *c.stored.DeepCopy()}}
			}
			api.Default(obj, stored, api.DefaultOptions{TemplateNoDefaults: c.off})
			var got corev1.PodTemplateSpec
			var phase corev1.PersistentVolumeClaimPhase
			if set := obj.Spec.Template.StatefulSetTemplate; set != nil {
				got, phase = set.Spec.Template, set.Spec.VolumeClaimTemplates[0].Status.Phase
			} else {
				got = obj.Spec.Template.CloneSetTemplate.Spec.Template
			}
			if got.Spec.DNSPolicy != c.want || phase != c.phase {
				t.Errorf("DNS policy %q, phase %q", got.Spec.DNSPolicy, phase)
			}
		})
	}
}
