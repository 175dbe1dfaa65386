package kubeletpull_test

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/node/imagepull"
)

// FuzzCourse simulates a kubelet that pulls, refuses, evicts and is slow, and Pods that disappear. No two Pods are
// created with the same name, and a Pod that is still needed is not deleted. When failures stop, exactly one Pod
// keeps each image in use.
func FuzzCourse(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 3))
		r := newRun(t, imagepull.Policy{Keep: true, Always: seed%2 == 0, Retries: 2, Timeout: time.Minute})
		r.wants = append(r.wants, imagepull.Want{Image: parse(t, "b:1"), Claims: []imagepull.Claim{{Owner: "b", Policy: imagepull.Policy{Keep: true}}}})
		for range 80 {
			move(r, random)
			check(r)
		}
		for range 400 {
			for _, pod := range r.pods {
				if pod.Status = running(); pod.DeletionTimestamp != nil {
					pod.OwnerReferences = nil // without the owner reference, the Puller ignores the Pod
				}
			}
			check(r)
			r.now = r.now.Add(r.step().After)
		}
		own := 0
		for _, pod := range r.pods {
			if len(pod.OwnerReferences) > 0 {
				own++
			}
		}
		if own != 2 || !r.reports[0].Present || !r.reports[1].Present {
			t.Errorf("seed %d: %d Pods, %+v", seed, own, r.reports)
		}
	})
}

func move(r *run, random *rand.Rand) {
	r.now = r.now.Add(time.Duration(random.IntN(40)) * time.Second)
	if len(r.pods) == 0 {
		return
	}
	i := random.IntN(len(r.pods))
	switch pod := r.pods[i]; random.IntN(6) {
	case 0:
		pod.Status = waiting("ErrImagePull", "denied")
	case 1:
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	case 2:
		pod.DeletionTimestamp = &metav1.Time{Time: r.now}
	case 3:
		r.pods = append(r.pods[:i:i], r.pods[i+1:]...)
	default:
		pod.Status = running()
	}
}

func check(r *run) {
	existing := map[string]bool{}
	for _, pod := range r.pods {
		existing[pod.Name] = len(pod.OwnerReferences) > 0
	}
	step := r.step()
	if len(step.Reports) != len(r.wants) || len(r.wants) > 0 && step.After <= 0 {
		r.t.Fatalf("%+v", step)
	}
	for _, pod := range step.Create {
		if existing[pod.Name] {
			r.t.Fatalf("%s exists: %+v", pod.Name, step)
		}
	}
	for _, pod := range step.Delete {
		if pod.DeletionTimestamp != nil {
			r.t.Fatalf("%s is being deleted: %+v", pod.Name, step)
		}
	}
	if merged, why := imagepull.Merge(r.wants, nil, step.Reports, r.now); len(merged) != len(r.wants) || len(why) > 0 {
		r.t.Fatalf("%v: %+v", why, step)
	}
}
