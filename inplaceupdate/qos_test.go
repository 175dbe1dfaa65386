package inplaceupdate_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/inplaceupdate"
)

// defaulted returns the requests that the API server would store: a missing request equals the limit.
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

// class is a second implementation of ComputePodQOS of Kubernetes 1.36, for a stored Pod. class adds up the values of
// all containers, whereas the code under test compares container by container.
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

// someResources returns random limits and requests within the limits; requests equal to limits, missing values and
// zeroes are frequent.
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

// redrawn returns new random values for the same set of requests and limits, because a resize may change values but
// not the set.
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

// TestQOSClassIsKubernetes compares random pairs of templates that differ only in the values of requests and limits.
// A resize must be blocked exactly if Kubernetes computes different QoS classes, and for no other reason.
func TestQOSClassIsKubernetes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	updater := mustNew(inplaceupdate.Config{AllowResize: true})
	kept, changed := 0, 0
	for range 1500 {
		from := newTemplate()
		from.Spec.InitContainers = from.Spec.InitContainers[1:] // drop the plain init container
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
		plan := updater.Plan(from, to)
		if plan.Possible() != same || (!same && (len(plan.Blocking) != 1 || plan.Blocking[0].Code != inplaceupdate.QOSClassWouldChange)) {
			t.Fatalf("U-5 %s to %s: %v\n%+v\n%+v", class(&from.Spec), class(&to.Spec), plan.Blocking, from.Spec.Containers, to.Spec.Containers)
		}
		if plan.Possible() {
			checkResized(t, plan, from, to)
		}
	}
	if kept < 100 || changed < 100 {
		t.Errorf("one-sided: %d pairs keep their class, %d do not", kept, changed)
	}
}

// checkResized compares the requests and limits of a live Pod of the old template after its resize with a new Pod of
// the new template.
func checkResized(t *testing.T, plan *inplaceupdate.Plan, from, to *template) {
	t.Helper()
	for i := range to.Spec.Containers {
		got, change := defaulted(from.Spec.Containers[i].Resources), plan.Resources[to.Spec.Containers[i].Name]
		maps.Copy(got.Limits, change.Limits)
		maps.Copy(got.Requests, change.Requests)
		if diff := cmp.Diff(defaulted(to.Spec.Containers[i].Resources), got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("container %d after the resize (-new Pod +live Pod):\n%s", i, diff)
		}
	}
}

// TestRequestsFollowLimits: the requests that the API server has set from the limits of a live Pod change together
// with the limits, so the Pod keeps its QoS class.
func TestRequestsFollowLimits(t *testing.T) {
	only := func(pairs ...string) *template {
		return newTemplate(func(t *template) { t.Spec.Containers[0].Resources = limited(pairs...) })
	}
	with := func(request string, pairs ...string) *template {
		return newTemplate(func(t *template) {
			t.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: quantities(pairs...), Requests: quantities("cpu", request)}
		})
	}
	type resources = corev1.ResourceRequirements
	for _, tc := range []struct {
		name     string
		from, to *template
		want     resources
	}{
		{"U-5 limits only", only("cpu", "1", "memory", "1Gi"), only("cpu", "2", "memory", "1Gi"), resources{Limits: quantities("cpu", "2"), Requests: quantities("cpu", "2")}},
		{"U-5 both limits", only("cpu", "1", "memory", "1Gi"), only("cpu", "2", "memory", "2Gi"), resources{Limits: quantities("cpu", "2", "memory", "2Gi"), Requests: quantities("cpu", "2", "memory", "2Gi")}},
		{"U-5 a request of its own stays", with("500m", "cpu", "1", "memory", "1Gi"), with("500m", "cpu", "2", "memory", "1Gi"), limited("cpu", "2")},
		{"U-5 the other request is nobody's", with("500m", "cpu", "1", "memory", "1Gi"), with("500m", "cpu", "1", "memory", "2Gi"), resources{Limits: quantities("memory", "2Gi"), Requests: quantities("memory", "2Gi")}},
		{"U-5 a request is written out as it was", only("cpu", "1", "memory", "1Gi"), with("1", "cpu", "1", "memory", "1Gi"), resources{}},
		{"U-5 a request is left to its limit, which stays", with("1", "cpu", "1", "memory", "1Gi"), only("cpu", "1", "memory", "1Gi"), resources{}},
		{"U-5 a request is left to its limit, which changes", with("1", "cpu", "1", "memory", "1Gi"), only("cpu", "2", "memory", "1Gi"), resources{Limits: quantities("cpu", "2"), Requests: quantities("cpu", "2")}},
		{"U-5 a request is written out with its new limit", only("cpu", "1", "memory", "1Gi"), with("2", "cpu", "2", "memory", "1Gi"), resources{Limits: quantities("cpu", "2"), Requests: quantities("cpu", "2")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			updater := newUpdater()
			plan := updater.Plan(tc.from, tc.to)
			if diff := cmp.Diff(tc.want, plan.Resources["app"]); diff != "" || !plan.Possible() {
				t.Errorf("blocking %v, resources (-want +got):\n%s", plan.Blocking, diff)
			}
			pod := newPod(tc.from)
			pod.Spec.Containers[0].Resources = defaulted(pod.Spec.Containers[0].Resources)
			pod = write(t, pod, mustStart(t, updater, pod, tc.from, tc.to, toward("2", 0), now))
			if class(&pod.Spec) != class(&tc.from.Spec) {
				t.Errorf("class %s, was %s", class(&pod.Spec), class(&tc.from.Spec))
			}
		})
	}
}

func TestQOSClassOfPodsWithoutResources(t *testing.T) {
	zero := func(t *template) {
		t.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "0")}
	}
	from := newTemplate(zero)
	to := newTemplate(zero, requests(0, "cpu", "1"))
	updater := mustNew(inplaceupdate.Config{AllowResize: true})
	plan := updater.Plan(from, to)
	if len(plan.Blocking) != 1 || plan.Blocking[0].Old != "BestEffort" || plan.Blocking[0].New != "Burstable" {
		t.Errorf("U-5 blocking %v", plan.Blocking)
	}
}
