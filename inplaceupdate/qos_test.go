package inplaceupdate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/inplaceupdate"
)

// defaulted returns requests as the API server stores them: a request that is missing is the limit.
func defaulted(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := *r.DeepCopy()
	if out.Requests == nil {
		out.Requests = corev1.ResourceList{}
	}
	for name, limit := range out.Limits {
		if _, ok := out.Requests[name]; !ok {
			out.Requests[name] = limit
		}
	}
	return out
}

// class restates ComputePodQOS of Kubernetes 1.36 for a Pod as it is stored. It sums up over all containers, where the code
// under test compares container by container.
func class(spec *corev1.PodSpec) corev1.PodQOSClass {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	guaranteed := true
	sum := func(into, from corev1.ResourceList) int {
		found := 0
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := from[name]; ok && q.Sign() == 1 {
				q.Add(into[name])
				into[name] = q
				found++
			}
		}
		return found
	}
	if spec.Resources != nil {
		own := defaulted(*spec.Resources)
		sum(requests, own.Requests)
		guaranteed = sum(limits, own.Limits) == 2
	} else {
		for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				own := defaulted(list[i].Resources)
				sum(requests, own.Requests)
				guaranteed = sum(limits, own.Limits) == 2 && guaranteed
			}
		}
	}
	if len(requests)+len(limits) == 0 {
		return corev1.PodQOSBestEffort
	}
	for name, request := range requests {
		limit, ok := limits[name]
		guaranteed = guaranteed && ok && limit.Cmp(request) == 0
	}
	if guaranteed && len(requests) == len(limits) {
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// someResources draws requests within limits; equal and missing ones and zeroes are frequent.
func someResources(r *rand.Rand) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit := 1 + r.IntN(2)
		if r.IntN(8) > 0 {
			out.Limits[name] = resource.MustParse(fmt.Sprint(limit))
		}
		switch r.IntN(5) {
		case 0:
			out.Requests[name] = resource.MustParse(fmt.Sprint(r.IntN(limit + 1)))
		case 1, 2:
			out.Requests[name] = resource.MustParse(fmt.Sprint(limit))
		}
	}
	return out
}

// redrawn returns other values for the same requests and limits, which is what a resize may change.
func redrawn(r *rand.Rand, old corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := *old.DeepCopy()
	for {
		fresh := someResources(r)
		for name := range out.Limits {
			if q, ok := fresh.Limits[name]; ok {
				out.Limits[name] = q
			}
		}
		fits := true
		for name := range out.Requests {
			if q, ok := fresh.Requests[name]; ok {
				out.Requests[name] = q
			}
			limit, limited := out.Limits[name]
			request := out.Requests[name]
			fits = fits && (!limited || request.Cmp(limit) <= 0)
		}
		if fits {
			return out
		}
	}
}

// TestQOSClassIsKubernetes draws pairs of templates that a resize may lead from one to the other by its values. The class
// must be the only thing in the way, exactly where Kubernetes computes another one.
func TestQOSClassIsKubernetes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	config := inplaceupdate.Config{Resources: true}
	kept, changed := 0, 0
	for range 1500 {
		from := newTemplate()
		from.Spec.InitContainers = from.Spec.InitContainers[1:] // the sidecar, which can be resized
		if r.IntN(4) == 0 {
			pod := someResources(r)
			from.Spec.Resources = &pod
		}
		to := from.DeepCopy()
		for i := range from.Spec.Containers {
			from.Spec.Containers[i].Resources = someResources(r)
			to.Spec.Containers[i].Resources = redrawn(r, from.Spec.Containers[i].Resources)
		}
		from.Spec.InitContainers[0].Resources = someResources(r)
		to.Spec.InitContainers[0].Resources = redrawn(r, from.Spec.InitContainers[0].Resources)

		same := class(&from.Spec) == class(&to.Spec)
		if same {
			kept++
		} else {
			changed++
		}
		plan := config.Plan(from, to)
		if plan.Possible() != same || (!same && (len(plan.Blocking) != 1 || plan.Blocking[0].Code != inplaceupdate.QOSClassWouldChange)) {
			t.Fatalf("U-5 %s to %s: %v\n%+v\n%+v", class(&from.Spec), class(&to.Spec), plan.Blocking, from.Spec.Containers, to.Spec.Containers)
		}
	}
	if kept < 100 || changed < 100 {
		t.Errorf("one-sided: %d pairs keep their class, %d do not", kept, changed)
	}
}

func TestQOSClassOfPodsWithoutResources(t *testing.T) {
	zero := func(t *template) {
		t.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "0")}
	}
	from := newTemplate(zero)
	to := newTemplate(zero, requests(0, "cpu", "1"))
	config := inplaceupdate.Config{Resources: true}
	plan := config.Plan(from, to)
	if len(plan.Blocking) != 1 || plan.Blocking[0].Old != "BestEffort" || plan.Blocking[0].New != "Burstable" {
		t.Errorf("U-5 blocking %v", plan.Blocking)
	}
}
