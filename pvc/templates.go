package pvc

import (
	"iter"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unmounted returns, sorted, the names of volumes that containers use and that neither their Pod nor a claim template has. The API server
// refuses such a Pod.
func Unmounted(spec *corev1.PodSpec, templates []corev1.PersistentVolumeClaim) (names []string) {
	use := func(c *corev1.Container) {
		for i := range c.VolumeMounts {
			names = append(names, c.VolumeMounts[i].Name)
		}
		for i := range c.VolumeDevices {
			names = append(names, c.VolumeDevices[i].Name)
		}
	}
	for i := range spec.InitContainers {
		use(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		use(&spec.Containers[i])
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }) || indexOf(templates, name) >= 0
	})
}

// Lacking returns the names of the claim templates whose claim a Pod does not use. Volumes of a Pod never change: it gets such a claim when
// it is made again.
func Lacking(pod *corev1.Pod, templates []corev1.PersistentVolumeClaim) (names []string) {
	for i := range templates {
		if !uses(pod, Name(templates[i].Name, pod.Name)) {
			names = append(names, templates[i].Name)
		}
	}
	return names
}

// MissingOf is Missing for a Pod that exists: claims of templates that it was made without are none of its own.
func MissingOf(
	pod *corev1.Pod, templates []corev1.PersistentVolumeClaim, labels map[string]string, owner *metav1.OwnerReference, exists func(name string) bool,
) []*corev1.PersistentVolumeClaim {
	return Missing(templates, pod.Namespace, pod.Name, labels, owner, func(name string) bool { return !uses(pod, name) || exists(name) })
}

// Union returns the claim templates of the first list, and those of the second whose names are not in the first.
func Union(templates, more []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	out := slices.Clip(templates)
	for i := range more {
		if indexOf(templates, more[i].Name) < 0 {
			out = append(out, more[i])
		}
	}
	return out
}

// Former finds the claim templates of an earlier Pod template where nobody has written them down. It is for one pass: what it has found it
// remembers. All fields are required.
type Former struct {
	// Today are the claim templates of today.
	Today []corev1.PersistentVolumeClaim
	// Claim looks a claim up in the owner's namespace.
	Claim func(name string) (*corev1.PersistentVolumeClaim, bool)
	// Pods are the names of the owner's Pods.
	Pods iter.Seq[string]

	mu     sync.Mutex
	others map[string]*corev1.PersistentVolumeClaim // what was found for a template by other Pods; nil for nothing
}

// mostAsked is how many Pods are asked for a claim of a template: those of one revision have the same.
const mostAsked = 50

// Templates returns what a Pod of the name is made with from an earlier template. What the template mounts and today's claim templates do
// not have is read from a claim: that of the Pod's own name or, without one, that of another Pod, of which a few are asked. What such a claim was
// filled from is left out. unknown names what no claim tells. A Former that is used for several Pods asks others once. It is safe for concurrent use.
func (f *Former) Templates(spec *corev1.PodSpec, pod string) (templates []corev1.PersistentVolumeClaim, unknown []string) {
	templates = slices.Clip(f.Today)
	for _, name := range Unmounted(spec, f.Today) {
		if claim, ok := f.Claim(Name(name, pod)); ok {
			templates = append(templates, templateOf(name, claim))
		} else if claim := f.ofOthers(name); claim != nil {
			template := templateOf(name, claim)
			template.Spec.DataSource, template.Spec.DataSourceRef = nil, nil // somebody may have restored that one Pod
			templates = append(templates, template)
		} else {
			unknown = append(unknown, name)
		}
	}
	return templates, unknown
}

func (f *Former) ofOthers(template string) *corev1.PersistentVolumeClaim {
	f.mu.Lock()
	defer f.mu.Unlock()
	if claim, asked := f.others[template]; asked {
		return claim
	}
	var found *corev1.PersistentVolumeClaim
	asked := 0
	for other := range f.Pods {
		claim, ok := f.Claim(Name(template, other))
		if asked++; ok {
			found = claim
		}
		if ok || asked == mostAsked {
			break
		}
	}
	if f.others == nil {
		f.others = map[string]*corev1.PersistentVolumeClaim{}
	}
	f.others[template] = found
	return found
}

// templateOf returns the template that a claim was made from, without what was added to the claim later.
func templateOf(name string, claim *corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaim {
	template := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: claim.Labels}, Spec: *claim.Spec.DeepCopy()}
	template.Spec.VolumeName = ""
	return template
}

func uses(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

func indexOf(templates []corev1.PersistentVolumeClaim, name string) int {
	return slices.IndexFunc(templates, func(t corev1.PersistentVolumeClaim) bool { return t.Name == name })
}
