package sidecarcontrol_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/sizing"
)

// sized gives a sidecar the ResourcesPolicy "half of the CPU of the target containers"; targets selects the
// containers by name.
func sized(targets string) func(*sidecarcontrol.Sidecar) {
	return func(s *sidecarcontrol.Sidecar) {
		half := sizing.Expressions{CPU: "max(cpu*50%, 50m)"}
		s.ResourcesPolicy = &sizing.Policy{Mode: sizing.Sum, Containers: targets, Limits: half, Requests: half}
	}
}

// cpu returns resources with the given CPU limit and CPU request.
func cpu(limit, request string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)},
	}
}

// cpuOf renders the limit and the request of CPU.
func cpuOf(c *corev1.Container) string {
	return c.Resources.Limits.Cpu().String() + "/" + c.Resources.Requests.Cpu().String()
}

func TestResourcesPolicy(t *testing.T) {
	withCPU := func(name, limit, request string, edits ...func(*sidecarcontrol.Sidecar)) sidecarcontrol.Sidecar {
		s := side(name, edits...)
		s.Resources = cpu(limit, request)
		return s
	}
	always := func(s *sidecarcontrol.Sidecar) { s.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways) }
	for _, tc := range []struct {
		name  string
		edit  func(*corev1.Pod)
		sets  []sidecarcontrol.Spec
		want  map[string]string // limit/request of sidecars
		error error
	}{
		{
			name: "RP-11 of all containers", sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", sized(".*"))}}},
			want: map[string]string{"mesh": "300m/75m"},
		},
		{
			name: "RP-2 of those with the name", sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", sized("^b"))}}},
			want: map[string]string{"mesh": "200m/50m"},
		},
		{
			name: "RP-1 what the sidecar has is replaced", sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{withCPU("mesh", "9", "9", sized("^b"))}}},
			want: map[string]string{"mesh": "200m/50m"},
		},
		{
			name: "RP-1 a native sidecar", sets: []sidecarcontrol.Spec{{Name: "one", InitContainers: []sidecarcontrol.Sidecar{side("mesh", always, sized(".*"))}}},
			want: map[string]string{"mesh": "300m/75m"},
		},
		{
			name: "RP-2 no sidecar of any set counts",
			sets: []sidecarcontrol.Spec{
				{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", sized(".*")), withCPU("log", "8", "8")}},
				{Name: "two", Containers: []sidecarcontrol.Sidecar{withCPU("b", "8", "8")}, InitContainers: []sidecarcontrol.Sidecar{withCPU("n", "8", "8", always)}},
			},
			want: map[string]string{"mesh": "100m/50m", "log": "8/8", "b": "8/8", "n": "8/8"},
		},
		{
			name: "RP-2 native sidecars of the Pod count, other init containers do not",
			edit: func(pod *corev1.Pod) {
				pod.Spec.InitContainers = []corev1.Container{
					{Name: "setup", Resources: cpu("8", "8")},
					{Name: "proxy", Resources: cpu("1", "400m"), RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
				}
			},
			sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", sized(".*"))}}},
			want: map[string]string{"mesh": "800m/275m"},
		},
		{
			name: "RP-11 one without a limit", edit: func(pod *corev1.Pod) { pod.Spec.Containers[1].Resources.Limits = nil },
			sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", sized(".*"))}}},
			want: map[string]string{"mesh": "0/75m"},
		},
		{
			name: "both containers of a hot one", sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", hot, sized(".*"))}}},
			want: map[string]string{"mesh-1": "300m/75m", "mesh-2": "300m/75m"},
		},
		{
			name: "RP-3 no target", sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", sized("^web$"))}}},
			error: sizing.NoTargetContainer,
		},
		{
			name: "RP-9 a negative result",
			sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", func(s *sidecarcontrol.Sidecar) {
				s.ResourcesPolicy = &sizing.Policy{Mode: sizing.Max, Containers: ".", Limits: sizing.Expressions{CPU: "cpu-2"}}
			})}}},
			error: sizing.InvalidExpression,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod("a", "b")
			pod.Spec.Containers[0].Resources, pod.Spec.Containers[1].Resources = cpu("200m", "50m"), cpu("400m", "100m")
			if tc.edit != nil {
				tc.edit(pod)
			}
			var sets []*sidecarcontrol.Set
			for _, s := range tc.sets {
				sets = append(sets, newSet(t, s))
			}
			before := pod.DeepCopy()
			_, err := newControl(t).Inject(pod, sets, sidecarcontrol.Facts{Now: now})
			if tc.error != nil {
				if !errors.Is(err, tc.error) || !cmp.Equal(before, pod) {
					t.Errorf("refused with %v, want %v, and changed:\n%s", err, tc.error, cmp.Diff(before, pod))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
				for i := range list {
					if _, asked := tc.want[list[i].Name]; asked {
						got[list[i].Name] = cpuOf(&list[i])
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("limits and requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoTargetIsNamed: the error names the set and the sidecar because of which the Pod is refused.
func TestNoTargetIsNamed(t *testing.T) {
	control := newControl(t)
	for _, tc := range []struct {
		set  sidecarcontrol.Spec
		want string
	}{
		{
			sidecarcontrol.Spec{Name: "sized", Containers: []sidecarcontrol.Sidecar{side("first"), side("mesh", sized("^web$"))}},
			"NoTargetContainer: set sized: containers[mesh].resourcesPolicy.targetContainersNameRegex: ^web$: matches none of the Pod's containers; " +
				"add a container that it matches, or change the expression",
		},
	} {
		pod := newPod("a")
		pod.Name, pod.GenerateName = "", "web-"
		_, err := control.Inject(pod, []*sidecarcontrol.Set{newSet(t, tc.set)}, sidecarcontrol.Facts{})
		if err == nil || err.Error() != tc.want {
			t.Errorf("refused with %v, want %s", err, tc.want)
		}
	}
}
