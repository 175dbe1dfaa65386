package kubeletpull

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/reason"
)

// These are names inside a Pod.
const (
	holder  = "pause"
	volume  = "image"
	mounted = "/image"
)

// nobody is the user of the pause image (build/pause/Dockerfile).
const nobody = 65535

// use is the purpose of a Pod, and a part of the Pod's name.
type use string

const (
	toPull use = "pull"
	// toHold is the use of a Pod that replaces a Pod with the pull policy Always, and keeps the image in use.
	toHold use = "hold"
)

// name returns the name of a Pod. The Pod of each attempt has a different name.
func (p *Puller) name(node string, r *imagepull.Report, u use) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		string(p.options.Owner.UID), node, r.Image.Normal(), string(u),
		strconv.FormatInt(r.Round, 10), strconv.Itoa(r.Losses), strconv.Itoa(r.Attempts),
	}, "\x00")))
	return p.options.Prefix + "-" + hex.EncodeToString(sum[:10])
}

// pod returns the Pod of an attempt, to be created.
//
// The Pod selects the Node by affinity, as Pods of DaemonSets do, and not by spec.nodeName. So the scheduler counts
// the Pod's requests, waits until the Node has free resources, and reports why the Pod waits. With spec.nodeName, a
// kubelet without free resources would reject the Pod, and the Pod would fail for good.
func (p *Puller) pod(node string, w *imagepull.Want, r *imagepull.Report, u use) *corev1.Pod {
	policy := corev1.PullIfNotPresent
	if u == toPull && w.Policy().Always {
		policy = corev1.PullAlways
	}
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.options.Namespace, Name: p.name(node, r, u), OwnerReferences: []metav1.OwnerReference{p.options.Owner},
	}}
	for key, value := range p.options.Labels {
		metav1.SetMetaDataLabel(&out.ObjectMeta, key, value)
	}
	out.Spec = corev1.PodSpec{
		Affinity:                      affinity(node),
		Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers:                    []corev1.Container{p.container()},
		Volumes:                       []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: r.Image.Normal(), PullPolicy: policy}}}},
		ImagePullSecrets:              p.secrets(w),
		ServiceAccountName:            p.options.ServiceAccount,
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		PriorityClassName:             p.options.PriorityClass,
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: ptr.To(int64(1)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(nobody)), RunAsGroup: ptr.To(int64(nobody)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	return out
}

// container returns the container that mounts the image, because the kubelet reports failures only of image volumes
// that a container mounts.
func (p *Puller) container() corev1.Container {
	return corev1.Container{
		Name: holder, Image: p.options.PauseImage, ImagePullPolicy: corev1.PullIfNotPresent,
		VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: mounted, ReadOnly: true}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("4Mi")},
			// Both limits are set, because a ResourceQuota on limits rejects Pods without these limits.
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// secrets returns the pull secrets of all claims, each once.
func (p *Puller) secrets(w *imagepull.Want) (out []corev1.LocalObjectReference) {
	var names []string
	for _, c := range w.Claims {
		names = append(names, p.options.PullSecrets[c.Owner]...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		out = append(out, corev1.LocalObjectReference{Name: name})
	}
	return out
}

func affinity(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}}
}

// nodeOf returns the Node for which a Pod was made; empty if unknown.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// Holding returns the name of the Node and the image for which a Puller made a Pod. ok is false for all other Pods.
// If the Pod has a record in Options.Annotation, Holding uses the record and not the Pod's spec: a webhook may have
// changed the affinity, or the registry in the name of the image.
func (p *Puller) Holding(pod *corev1.Pod) (node string, image imagepull.Reference, ok bool) {
	if r := p.recordOf(pod); r.Node != "" {
		if image, err := imagepull.Parse(r.Image); err == nil {
			return r.Node, image, true
		}
	}
	image, holds := imageOf(pod)
	node = nodeOf(pod)
	return node, image, holds && node != ""
}

// changed returns the reason why a Pod cannot pull the image onto the Node, because a webhook or a scheduler has
// changed the Pod; nil if there is no such reason.
func (p *Puller) changed(pod *corev1.Pod) error {
	node, _, _ := p.Holding(pod)
	switch {
	case pod.Spec.NodeName != "" && pod.Spec.NodeName != node:
		return reason.Reason{Code: PodChanged, Detail: "the Pod was bound to the Node " + pod.Spec.NodeName, Remedy: "exclude the Pod from the webhook that changes the affinity of Pods"}
	case sourceOf(pod) == nil:
		return reason.Reason{Code: PodChanged, Detail: "the Pod has no image volume", Remedy: "exclude the Pod from the webhook that removes the volume"}
	}
	return nil
}

// sourceOf returns the image volume of a Pod; nil if the Pod has none.
func sourceOf(pod *corev1.Pod) *corev1.ImageVolumeSource {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == volume {
			return pod.Spec.Volumes[i].Image
		}
	}
	return nil
}

// imageOf returns the image in the image volume of a Pod.
func imageOf(pod *corev1.Pod) (imagepull.Reference, bool) {
	source := sourceOf(pod)
	if source == nil {
		return imagepull.Reference{}, false
	}
	image, err := imagepull.Parse(source.Reference)
	return image, err == nil
}
