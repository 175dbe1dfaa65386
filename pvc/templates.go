package pvc

import (
	"iter"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unmounted returns, sorted, the names of volumes used by containers but missing in both the Pod's volumes and the
// claim templates. The API server refuses such a Pod.
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

// Lacking returns the names of the claim templates whose claims the Pod does not use. Volumes of a Pod never change:
// the Pod gets such a claim only when made again.
func Lacking(pod *corev1.Pod, templates []corev1.PersistentVolumeClaim) (names []string) {
	for i := range templates {
		if !uses(pod, Name(templates[i].Name, pod.Name)) {
			names = append(names, templates[i].Name)
		}
	}
	return names
}

// MissingOf is Missing for an existing Pod. Claims of templates added after the Pod's creation do not belong to the
// Pod.
func MissingOf(
	pod *corev1.Pod, templates []corev1.PersistentVolumeClaim, labels map[string]string, owner *metav1.OwnerReference, exists func(name string) bool,
) []*corev1.PersistentVolumeClaim {
	return Missing(templates, pod.Namespace, pod.Name, labels, owner, func(name string) bool { return !uses(pod, name) || exists(name) })
}

// Union returns the claim templates of the first list, and the templates of the second list with other names.
func Union(templates, more []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	out := slices.Clip(templates)
	for i := range more {
		if indexOf(templates, more[i].Name) < 0 {
			out = append(out, more[i])
		}
	}
	return out
}

// Former finds the claim templates of an earlier Pod template if nobody has written them down. A Former is for a single
// pass, because it remembers its findings. All fields are required.
type Former struct {
	// Today are the claim templates of today.
	Today []corev1.PersistentVolumeClaim
	// Claim looks a claim up in the owner's namespace.
	Claim func(name string) (*corev1.PersistentVolumeClaim, bool)
	// Pods are the names of the owner's Pods.
	Pods iter.Seq[string]

	mu     sync.Mutex
	others map[string]*corev1.PersistentVolumeClaim // the claim found through other Pods for a template; nil for none
}

// mostAsked is the number of Pods to ask for a claim of a template. All Pods of a revision have the same claims.
const mostAsked = 50

// Templates returns the claim templates for a Pod of the name made from an earlier template. For volumes mounted by the
// template but missing in today's claim templates, Templates reads a claim: the claim of the Pod's own name or, if
// missing, another Pod's claim, from a few asked Pods. Templates leaves out the data source of another Pod's claim.
// unknown names the volumes without any claim. A Former used for several Pods asks other Pods only once. A Former is
// safe for concurrent use.
func (f *Former) Templates(spec *corev1.PodSpec, pod string) (templates []corev1.PersistentVolumeClaim, unknown []string) {
	templates = slices.Clip(f.Today)
	for _, name := range Unmounted(spec, f.Today) {
		if claim, ok := f.Claim(Name(name, pod)); ok {
			templates = append(templates, templateOf(name, claim))
		} else if claim := f.ofOthers(name); claim != nil {
			template := templateOf(name, claim)
			template.Spec.DataSource, template.Spec.DataSourceRef = nil, nil // somebody may have restored only the other Pod
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

// templateOf returns the template of a claim, without later additions to the claim.
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
