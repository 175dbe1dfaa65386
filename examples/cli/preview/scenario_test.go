package preview_test

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// scenario is a random rollout.
type scenario struct {
	seed      uint64
	rng       *rand.Rand
	namespace string
	kind      string
	story     []string

	replicas int32
	// first are created before the workload.
	first    []client.Object
	workload client.Object
	// changed is the object after the change.
	changed client.Object
	// path is the changed field of the template that cannot change in place; empty if there is none.
	path    string
	inPlace bool // the update policy allows updates in place
	// budgeted means that a budget covers the Pods. surges means that new Pods are created before old Pods are
	// deleted.
	budgeted, surges bool
}

func (s *scenario) chance(percent int) bool { return s.rng.IntN(100) < percent }

func (s *scenario) tellf(format string, args ...any) {
	s.story = append(s.story, fmt.Sprintf(format, args...))
}

func newScenario(seed uint64, namespace string) *scenario {
	s := &scenario{seed: seed, rng: rand.New(rand.NewPCG(seed, 40)), namespace: namespace}
	s.kind = []string{"CloneSet", "StatefulSet", "DaemonSet", "SidecarSet"}[s.rng.IntN(4)]
	s.replicas = int32(2 + s.rng.IntN(5))
	s.tellf("seed %d: %s, %d replicas", seed, s.kind, s.replicas)
	switch s.kind {
	case "CloneSet", "SidecarSet":
		s.cloneSet()
	case "StatefulSet":
		s.statefulSet()
	default:
		s.daemonSet()
	}
	if s.chance(30) {
		s.budget()
	}
	if s.kind == "SidecarSet" {
		s.sidecarSet()
	}
	return s
}

func (s *scenario) template() corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "1"}}}
	t.Spec.TerminationGracePeriodSeconds = new(int64)
	t.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}}
	for _, name := range []string{"app", "log"} {
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{
			Name: name, Image: "example.test/" + name + ":v1", Env: []corev1.EnvVar{{Name: "MODE", Value: "1"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}, Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")},
			},
		})
	}
	return t
}

// edit changes a template.
func (s *scenario) edit(t *corev1.PodTemplateSpec) {
	for range 1 + s.rng.IntN(2) {
		c := &t.Spec.Containers[s.rng.IntN(2)]
		switch n := s.rng.IntN(10); {
		case n < 5:
			c.Image = "example.test/" + c.Name + ":v2"
			s.tellf("image of %s", c.Name)
		case n < 6:
			t.Annotations["note"] = "2"
			s.tellf("annotation")
		case n < 7:
			t.Labels["tier"] = "2"
			s.tellf("label")
		case n < 8:
			c.Env[0].Value = "2"
			s.path = "spec.containers[" + c.Name + "].env"
			s.tellf("env of %s", c.Name)
		case n < 9:
			c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("30m")
			s.path = "spec.containers[" + c.Name + "].resources"
			s.tellf("resources of %s", c.Name)
		default:
			t.Spec.PriorityClassName, t.Spec.HostNetwork, t.Spec.DNSPolicy = "", false, corev1.DNSDefault
			s.path = "spec.dnsPolicy"
			s.tellf("DNS policy")
		}
	}
}

func (s *scenario) number(most int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(s.rng.IntN(most + 1)))
	if s.chance(30) {
		v = intstr.FromString(fmt.Sprintf("%d%%", 10*s.rng.IntN(11)))
	}
	return &v
}

// unavailable returns a random maxUnavailable of at least 1.
func (s *scenario) unavailable() *intstr.IntOrString {
	v := intstr.FromInt32(int32(1 + s.rng.IntN(3)))
	if s.chance(30) {
		v = intstr.FromString(fmt.Sprintf("%d%%", 20+10*s.rng.IntN(9)))
	}
	return &v
}

func (s *scenario) hooks() *pub.Lifecycle {
	if !s.chance(25) {
		return nil
	}
	hook := &pub.LifecycleHook{LabelsHandler: map[string]string{"example.test/hold": "true"}, MarkPodNotReady: s.chance(50)}
	if s.kind != "DaemonSet" && s.chance(50) {
		s.tellf("hook inPlaceUpdate, marks not ready %v", hook.MarkPodNotReady)
		return &pub.Lifecycle{InPlaceUpdate: hook}
	}
	s.tellf("hook preDelete, marks not ready %v", hook.MarkPodNotReady)
	return &pub.Lifecycle{PreDelete: hook}
}

func (s *scenario) withHook(t *corev1.PodTemplateSpec, hooks *pub.Lifecycle) {
	if hooks != nil {
		t.Labels["example.test/hold"] = "true"
	}
}

func (s *scenario) claimTemplates() []corev1.PersistentVolumeClaim {
	if !s.chance(25) {
		return nil
	}
	s.tellf("claims")
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim.Spec.StorageClassName = &s.namespace
	s.volumes()
	return []corev1.PersistentVolumeClaim{claim}
}

// volumes adds PersistentVolumes for the Pods and for their successors.
func (s *scenario) volumes() {
	s.first = append(s.first, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Provisioner: "kubernetes.io/no-provisioner"})
	for i := range 3 * (s.replicas + 2) {
		s.first = append(s.first, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.namespace, i)},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: s.namespace, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
			},
		})
	}
}

func mount(t *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim) {
	for i := range claims {
		t.Spec.Containers[0].VolumeMounts = append(t.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: claims[i].Name, MountPath: "/" + claims[i].Name})
	}
}

func (s *scenario) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

func (s *scenario) cloneSet() {
	set := &v1beta1.CloneSet{ObjectMeta: s.meta()}
	set.Spec.Replicas, set.Spec.Selector, set.Spec.Template = &s.replicas, selector(), s.template()
	set.Spec.Lifecycle, set.Spec.VolumeClaimTemplates = s.hooks(), s.claimTemplates()
	s.withHook(&set.Spec.Template, set.Spec.Lifecycle)
	mount(&set.Spec.Template, set.Spec.VolumeClaimTemplates)
	rolling := &v1beta1.RollingUpdateCloneSet{PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: s.unavailable()}
	switch s.rng.IntN(4) {
	case 0:
		rolling.PodUpdatePolicy = "ReCreate"
	case 1:
		rolling.MaxSurge, s.surges = s.number(2), true
		s.tellf("maxSurge %s", rolling.MaxSurge)
	}
	s.inPlace = rolling.PodUpdatePolicy == v1beta1.InPlaceIfPossible
	set.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{Type: v1beta1.RollingUpdate, RollingUpdate: rolling}
	s.tellf("%s, maxUnavailable %s", rolling.PodUpdatePolicy, rolling.MaxUnavailable)
	s.workload = set
	if s.kind == "SidecarSet" {
		return
	}
	changed := set.DeepCopy()
	s.edit(&changed.Spec.Template)
	if s.chance(40) {
		changed.Spec.UpdateStrategy.RollingUpdate.Partition = s.number(int(s.replicas))
		s.tellf("partition %s", changed.Spec.UpdateStrategy.RollingUpdate.Partition)
	}
	if s.chance(10) {
		changed.Spec.UpdateStrategy.RollingUpdate.Paused = true
		s.tellf("paused")
	}
	if s.chance(20) {
		changed.Spec.Replicas = new(s.replicas + int32(s.rng.IntN(3)) - 1)
		s.tellf("replicas %d", *changed.Spec.Replicas)
	}
	s.changed = changed
}

func (s *scenario) statefulSet() {
	set := &v1beta1.StatefulSet{ObjectMeta: s.meta()}
	set.Spec.Replicas, set.Spec.Selector, set.Spec.Template, set.Spec.ServiceName = &s.replicas, selector(), s.template(), "web"
	set.Spec.Lifecycle, set.Spec.VolumeClaimTemplates = s.hooks(), s.claimTemplates()
	s.withHook(&set.Spec.Template, set.Spec.Lifecycle)
	mount(&set.Spec.Template, set.Spec.VolumeClaimTemplates)
	rolling := &v1beta1.RollingUpdateStatefulSet{PodUpdatePolicy: v1beta1.InPlaceIfPossible}
	if s.inPlace = s.chance(75); !s.inPlace {
		rolling.PodUpdatePolicy = "ReCreate"
	}
	if set.Spec.PodManagementPolicy = "OrderedReady"; s.chance(50) {
		set.Spec.PodManagementPolicy, rolling.MaxUnavailable = "Parallel", s.unavailable()
		s.tellf("Parallel, maxUnavailable %s", rolling.MaxUnavailable)
	}
	set.Spec.UpdateStrategy.Type, set.Spec.UpdateStrategy.RollingUpdate = "RollingUpdate", rolling
	s.tellf("%s", rolling.PodUpdatePolicy)
	s.workload = set
	changed := set.DeepCopy()
	s.edit(&changed.Spec.Template)
	if s.chance(40) {
		partition := int32(s.rng.IntN(int(s.replicas) + 1))
		changed.Spec.UpdateStrategy.RollingUpdate.Partition = &partition
		s.tellf("partition %d", partition)
	}
	if s.chance(20) {
		changed.Spec.Replicas = new(s.replicas + int32(s.rng.IntN(3)) - 1)
		s.tellf("replicas %d", *changed.Spec.Replicas)
	}
	s.changed = changed
}

func (s *scenario) daemonSet() {
	set := &v1beta1.DaemonSet{ObjectMeta: s.meta()}
	set.Spec.Selector, set.Spec.Template = selector(), s.template()
	if s.inPlace = s.chance(60); s.inPlace {
		set.Spec.Lifecycle = s.hooks()
		s.withHook(&set.Spec.Template, set.Spec.Lifecycle)
	}
	rolling := &v1beta1.RollingUpdateDaemonSet{RollingUpdateType: "Standard", MaxUnavailable: s.unavailable()}
	if s.inPlace {
		rolling.RollingUpdateType = "InPlaceIfPossible"
	}
	s.tellf("%s, maxUnavailable %s", rolling.RollingUpdateType, rolling.MaxUnavailable)
	set.Spec.UpdateStrategy.Type, set.Spec.UpdateStrategy.RollingUpdate = "RollingUpdate", rolling
	s.workload = set
	changed := set.DeepCopy()
	s.edit(&changed.Spec.Template)
	if s.chance(40) {
		partition := intstr.FromInt32(int32(s.rng.IntN(5)))
		changed.Spec.UpdateStrategy.RollingUpdate.Partition = &partition
		s.tellf("partition %s", &partition)
	}
	if s.chance(10) {
		changed.Spec.UpdateStrategy.RollingUpdate.Paused = new(true)
		s.tellf("paused")
	}
	s.changed = changed
}

func (s *scenario) budget() {
	budget := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "guard"}}
	budget.Spec.Selector = selector()
	most := intstr.FromInt32(int32(s.rng.IntN(3)))
	budget.Spec.MaxUnavailable, s.budgeted = &most, true
	s.tellf("budget with maxUnavailable %s", &most)
	s.first = append(s.first, budget)
}

func (s *scenario) sidecarSet() {
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	set.Spec.Selector = selector()
	set.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}}
	side := pub.SidecarContainer{Container: corev1.Container{Name: "side", Image: "example.test/side:v1", Env: []corev1.EnvVar{{Name: "MODE", Value: "1"}}}}
	set.Spec.Containers = []pub.SidecarContainer{side}
	set.Spec.UpdateStrategy.Type, set.Spec.UpdateStrategy.MaxUnavailable = "RollingUpdate", s.unavailable()
	s.tellf("sidecars with maxUnavailable %s", set.Spec.UpdateStrategy.MaxUnavailable)
	s.first = append(s.first, set)
	changed := set.DeepCopy()
	switch s.rng.IntN(5) {
	case 0:
		changed.Spec.Containers[0].Env[0].Value = "2"
		s.tellf("env of the sidecar")
	default:
		changed.Spec.Containers[0].Image = "example.test/side:v2"
		s.tellf("image of the sidecar")
	}
	if s.chance(40) {
		changed.Spec.UpdateStrategy.Partition = s.number(int(s.replicas))
		s.tellf("partition %s", changed.Spec.UpdateStrategy.Partition)
	}
	if s.chance(10) {
		changed.Spec.UpdateStrategy.Paused = true
		s.tellf("paused")
	}
	s.changed = changed
}
