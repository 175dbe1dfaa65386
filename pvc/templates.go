package pvc

import (
	"iter"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unmounted returns the sorted names of volumes that containers mount but that neither the Pod's volumes nor the claim
// templates have. The API server refuses such a Pod.
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

// Lacking returns the names of the claim templates whose claims the Pod does not use. The volumes of a Pod never
// change: the Pod gets such a claim only when recreated.
func Lacking(pod *corev1.Pod, templates []corev1.PersistentVolumeClaim) (names []string) {
	for i := range templates {
		if !uses(pod, Name(templates[i].Name, pod.Name)) {
			names = append(names, templates[i].Name)
		}
	}
	return names
}

// MissingOf returns the claims of an existing Pod that do not exist. Claims of templates added after the Pod's creation
// do not count.
func MissingOf(
	pod *corev1.Pod, templates []corev1.PersistentVolumeClaim, labels map[string]string, owner *metav1.OwnerReference, exists func(name string) bool,
) []*corev1.PersistentVolumeClaim {
	return Missing(templates, pod.Namespace, pod.Name, labels, owner, func(name string) bool { return !uses(pod, name) || exists(name) })
}

// Union returns the claim templates of the first list, and those templates of the second list whose names are not in
// the first.
func Union(templates, more []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	out := slices.Clip(templates)
	for i := range more {
		if indexOf(templates, more[i].Name) < 0 {
			out = append(out, more[i])
		}
	}
	return out
}

// Former reconstructs the claim templates of an earlier Pod template if the claim templates were not recorded. Use a
// Former for a single reconcile only, because a Former caches the claims that were found. All fields are required.
type Former struct {
	// Today are the present claim templates.
	Today []corev1.PersistentVolumeClaim
	// Claim finds a claim in the owner's namespace by name.
	Claim func(name string) (*corev1.PersistentVolumeClaim, bool)
	// Pods are the names of the owner's Pods.
	Pods iter.Seq[string]

	mu sync.Mutex
	// others holds, by name of a claim template, the claim of another Pod; nil if no claim was found.
	others map[string]*corev1.PersistentVolumeClaim
}

// mostAsked limits the number of other Pods whose claims are looked up for a template. All Pods of a revision have
// the same claims.
const mostAsked = 50

// Templates returns the claim templates for a Pod of the given name made from an earlier Pod template. If the Pod
// template mounts a volume that the present claim templates lack, Templates derives the claim template from an existing
// claim: the claim of the Pod's own name or, if missing, a claim of a few other Pods. If the claim belongs to
// another Pod, its data source is left out. unknown names the volumes for which no claim was found. If a Former is used
// for several Pods, the claims of other Pods are read only once. A Former is safe for concurrent use.
func (f *Former) Templates(spec *corev1.PodSpec, pod string) (templates []corev1.PersistentVolumeClaim, unknown []string) {
	templates = slices.Clip(f.Today)
	for _, name := range Unmounted(spec, f.Today) {
		if claim, ok := f.Claim(Name(name, pod)); ok {
			templates = append(templates, templateOf(name, claim))
		} else if claim := f.ofOthers(name); claim != nil {
			template := templateOf(name, claim)
			// The data source, such as a snapshot, may belong only to the other Pod.
			template.Spec.DataSource, template.Spec.DataSourceRef = nil, nil
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

// templateOf derives a template from a claim, without fields that were set later on the claim.
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
