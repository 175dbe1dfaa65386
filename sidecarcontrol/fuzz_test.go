package sidecarcontrol_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// FuzzInject: for any Pod and sets, a second injection changes nothing, the order of the sets does not matter, no
// container appears twice, the Pod's own containers are kept, and a refused Pod is unchanged.
func FuzzInject(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{"name":"app","env":[{"name":"A","value":"1"}],"volumeMounts":[{"name":"v","mountPath":"/v","subPathExpr":"$(A)"}]}],"initContainers":[{"name":"i"}]}}`),
		[]byte(`[{"Name":"one","Containers":[{"name":"s","image":"s:v1","shareMounts":true,"transferEnv":[{"container":"app","names":["A"]}]}]},`+
			`{"Name":"two","Containers":[{"name":"mesh","image":"m:v1","hot":{"emptyImage":"e"}}],"InitContainers":[{"name":"n","restartPolicy":"Always"}]}]`))
	f.Add([]byte(`{"metadata":{"annotations":{"a":"{}"}},"spec":{"containers":[{"name":"s"},{"name":"app"}]}}`),
		[]byte(`[{"Name":"one","Containers":[{"name":"s"}],"Annotations":[{"Annotations":{"a":"{\"b\":1}"},"Policy":"MergePatchJson"}]},{"Name":"two","Replaces":"one"}]`))
	f.Fuzz(func(t *testing.T, rawPod, rawSets []byte) {
		pod, specs := &corev1.Pod{}, []sidecarcontrol.Spec{}
		if json.Unmarshal(rawPod, pod) != nil || json.Unmarshal(rawSets, &specs) != nil {
			t.Skip()
		}
		if hasTwins(pod.Spec.Containers) || hasTwins(pod.Spec.InitContainers) {
			t.Skip("no API server has such a Pod")
		}
		var sets []*sidecarcontrol.Set
		for _, s := range specs {
			if set, err := sidecarcontrol.NewSet(s); err == nil && !slices.ContainsFunc(sets, func(o *sidecarcontrol.Set) bool { return o.Name() == set.Name() }) {
				sets = append(sets, set)
			}
		}
		c, own := newControl(t), pod.DeepCopy()
		got, err := c.Inject(pod, sets, sidecarcontrol.Facts{Now: now})
		if err != nil {
			if diff := cmp.Diff(own, pod); diff != "" {
				t.Fatalf("refused (%v), and changed:\n%s", err, diff)
			}
			return
		}
		if hasTwins(pod.Spec.Containers) || hasTwins(pod.Spec.InitContainers) {
			t.Errorf("a container twice: %v %v", names(pod.Spec.InitContainers), names(pod.Spec.Containers))
		}
		for i := range own.Spec.Containers {
			if !slices.Contains(names(pod.Spec.Containers), own.Spec.Containers[i].Name) {
				t.Errorf("container %q is gone", own.Spec.Containers[i].Name)
			}
		}
		again := pod.DeepCopy()
		if _, err := c.Inject(again, sets, sidecarcontrol.Facts{Now: now.Add(time.Hour)}); err != nil || !cmp.Equal(pod, again) {
			t.Errorf("injecting again (%v) changes:\n%s", err, cmp.Diff(pod, again))
		}
		reversed := slices.Clone(sets)
		slices.Reverse(reversed)
		other := own.DeepCopy()
		if _, err := c.Inject(other, reversed, sidecarcontrol.Facts{Now: now}); err != nil || !cmp.Equal(pod, other) {
			t.Errorf("with the sets in another order (%v):\n%s", err, cmp.Diff(pod, other))
		}
		for _, set := range got {
			if s := c.Read(pod, set, now); !s.Injected || !s.Updated || len(s.Blocked) > 0 {
				t.Errorf("set %s was injected, and the Pod stands %+v", set.Name(), s)
			}
		}
	})
}

func hasTwins(containers []corev1.Container) bool {
	all := names(containers)
	slices.Sort(all)
	return len(slices.Compact(slices.Clone(all))) != len(all)
}
