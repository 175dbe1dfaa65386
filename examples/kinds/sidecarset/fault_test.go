package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, only sidecars change. A Pod gets all images of a set at once, and the two containers
// of a hot upgrade never run the same image. Both SidecarSets together take no more Pods out of service than the
// maxUnavailable of either SidecarSet. In the end all Pods have the newest possible sidecars.
func TestFaults(t *testing.T) {
	chaos.Run(t, plan(t, false))
}

// TestFaultsOfTwoSets: both sets upgrade the same Pods at the same time, mostly one Pod at a time.
func TestFaultsOfTwoSets(t *testing.T) {
	chaos.Run(t, plan(t, true))
}

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) {
	chaos.Replay(t, plan(t, false), 3)
}

// plan returns the plan of fault schedules with all kinds of events. If narrow is true, schedules contain mostly
// rollouts.
func plan(t testing.TB, narrow bool) chaos.Plan {
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	control, err := kruise.SidecarControl(nil)
	if err != nil {
		t.Fatal(err)
	}
	seeds := 300
	if narrow {
		seeds = 60
	}
	return chaos.Plan{
		Scheme: scheme, Kinds: []client.Object{faultapi.ClusterWide(&v1beta1.SidecarSet{}), &corev1.Namespace{}}, Seeds: seeds, Steps: 200,
		Quiet: 6 * time.Minute, // longer than the back-off of a refused upgrade
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, control: control, narrow: narrow, taken: map[types.UID]taking{}}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Settle: w.settle,
				Denies: w.denies, Looks: w.look, Wrote: w.judge, Check: w.check, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	control *sidecarcontrol.Control
	narrow  bool
	// denied is the name of a Pod whose writes are refused.
	denied string
	// once contains Pods of which only the next write is refused.
	once map[string]bool
	pods int
	// taken are the Pods that were in service when the controller changed an image, and are not in service again yet.
	taken map[types.UID]taking
	// writes counts the writes to Pods.
	writes int
}

// taking records which write took a Pod out of service, and by which reconciliation.
type taking struct {
	write int
	pass  *sight
}

const namespace = "default"

// These are the sets with their sidecars. Both sets select the same Pods.
const (
	mesh = "mesh" // has the cold sidecar "proxy" and the hot sidecar "hot"
	logs = "logs" // has the cold sidecar "log" and the native sidecar "native", which starts before "log"
)

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	r, err := newReconciler(ctx, mgr, mgr.GetClient(), Options{RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}})
	if err != nil {
		return err
	}
	return r.Cache.AddController(mgr, "sidecarset", r, ownercache.ControllerOptions{Workers: 3, Watch: r.watchNamespaces, RateLimiter: r.options.RateLimiter()})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	w.must(w.User.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"team": "a"}}}))
	for _, name := range []string{mesh, logs} {
		set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		if w.Chance(30) {
			set.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		}
		if name == logs {
			addLogs(&set.Spec)
		} else {
			addMesh(&set.Spec)
		}
		set.Spec.PatchPodMetadata = patches(name, 0)
		set.Spec.RevisionHistoryLimit = ptr.To(int32(1 + w.Rand().IntN(4)))
		if set.Spec.UpdateStrategy.MaxUnavailable = w.count(2, "34%", "100%"); w.narrow {
			set.Spec.UpdateStrategy.MaxUnavailable = ptr.To(intstr.FromInt32(1))
		}
		w.must(api.Default(set))
		w.must(w.User.Create(context.Background(), set))
	}
	for _, image := range []string{"proxy", "hot", "log", "native"} {
		w.Nodes.Images.SetBroken(image+":broken", true)
		w.Nodes.Images.SetSick(image+":sick", true)
	}
	for range 2 + w.Rand().IntN(4) {
		w.createPod()
	}
}

func addLogs(s *v1beta1.SidecarSetSpec) {
	s.Containers = []pub.SidecarContainer{{Container: corev1.Container{
		Name: "log", Image: "log:v1", VolumeMounts: []corev1.VolumeMount{{Name: "logs", MountPath: "/var/log"}},
	}}}
	s.InitContainers = []pub.SidecarContainer{
		{Container: corev1.Container{Name: "setup", Image: "setup:v1"}},
		{Container: corev1.Container{Name: "native", Image: "native:v1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
	}
	s.Volumes = []corev1.Volume{{Name: "logs", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func addMesh(s *v1beta1.SidecarSetSpec) {
	s.Containers = []pub.SidecarContainer{
		{Container: corev1.Container{Name: "proxy", Image: "proxy:v1"}},
		{Container: corev1.Container{Name: "hot", Image: "hot:v1"}, UpgradeStrategy: pub.SidecarUpgradeStrategy{
			UpgradeType: pub.SidecarHotUpgrade, HotUpgradeEmptyImage: "empty:v1",
		}},
	}
}

// patches returns the annotations that a SidecarSet adds to Pods: the first annotation overwrites an existing value,
// the second keeps an existing value.
func patches(set string, version int) []pub.SidecarSetPatchPodMetadata {
	value := fmt.Sprint(version)
	return []pub.SidecarSetPatchPodMetadata{
		{Annotations: map[string]string{"example.test/" + set: value}, PatchPolicy: pub.SidecarSetOverwrite},
		{Annotations: map[string]string{"example.test/first-" + set: value}, PatchPolicy: pub.SidecarSetRetain},
	}
}

// sidecarsOf returns the upgradable sidecars of a set.
func sidecarsOf(set *v1beta1.SidecarSet) (out []*pub.SidecarContainer) {
	for i := range set.Spec.Containers {
		out = append(out, &set.Spec.Containers[i])
	}
	for i := range set.Spec.InitContainers {
		if c := &set.Spec.InitContainers[i]; podstate.IsNativeSidecar(&c.Container) {
			out = append(out, c)
		}
	}
	return out
}

// count returns a random count from 1 to most, or a random percentage.
func (w *story) count(most int, percentages ...string) *intstr.IntOrString {
	if w.Chance(40) {
		return ptr.To(intstr.FromString(percentages[w.Rand().IntN(len(percentages))]))
	}
	return ptr.To(intstr.FromInt32(int32(1 + w.Rand().IntN(most))))
}

func (w *story) set(name string) *v1beta1.SidecarSet {
	set := &v1beta1.SidecarSet{}
	w.must(w.User.Get(context.Background(), types.NamespacedName{Name: name}, set))
	return set
}

// users makes a random change as a user.
func (w *story) users() {
	pod := w.AnyPod()
	switch n := w.Rand().IntN(20); {
	case w.narrow:
		set := w.set([]string{mesh, logs}[n%2])
		sidecars := sidecarsOf(set)
		c := sidecars[w.Rand().IntN(len(sidecars))]
		c.Image = c.Name + []string{":v1", ":v2", ":v3"}[w.Rand().IntN(3)]
		w.update(set)
	case n < 2 && w.pods < 12:
		w.createPod()
	case n < 3 && pod != nil:
		w.Logf("user: deletes Pod %s", pod.Name)
		w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), pod.DeepCopy())))
	case n < 5 && pod != nil:
		labelled := pod.DeepCopy()
		if labelled.Labels["app"] = "web"; w.Chance(50) {
			labelled.Labels["app"] = "other"
		}
		w.Logf("user: Pod %s is %s", pod.Name, labelled.Labels["app"])
		w.must(w.User.Update(context.Background(), labelled))
	case n < 6:
		namespaced := &corev1.Namespace{}
		w.must(w.User.Get(context.Background(), types.NamespacedName{Name: namespace}, namespaced))
		if namespaced.Labels["team"] = "a"; w.Chance(40) {
			namespaced.Labels["team"] = "b"
		}
		w.Logf("user: the namespace is of team %s", namespaced.Labels["team"])
		w.must(w.User.Update(context.Background(), namespaced))
	case n < 7 && pod != nil:
		w.forge(pod)
	case n < 8 && pod != nil && w.Chance(50):
		w.lose(pod)
	case n < 8:
		if w.denied = ""; pod != nil && w.Chance(60) {
			w.denied = pod.Name
		}
		w.Logf("admission: nothing may be written to Pod %q", w.denied)
	default:
		w.edit([]string{mesh, logs}[w.Rand().IntN(2)])
	}
}

// forge writes false records of upgrades into annotations, as every client that may write Pods could.
func (w *story) forge(pod *corev1.Pod) {
	forged := pod.DeepCopy()
	texts := []string{
		`{"mesh":{"revision":"x","updateTimestamp":"2000-01-01T00:00:00Z","lastContainerStatuses":{},"nextContainerImages":{"app":"app:evil"}}}`,
		`{"logs":{"revision":"x","updateTimestamp":"2000-01-01T00:00:00Z","lastContainerStatuses":{},"nextContainerResources":{"app":{"limits":{"cpu":"3"}}}}}`,
		`{"nobody":{"revision":"x","updateTimestamp":"2000-01-01T00:00:00Z","lastContainerStatuses":{"app":{"imageID":"x"}},"updateImages":true}}`,
	}
	if forged.Annotations == nil {
		forged.Annotations = map[string]string{}
	}
	if forged.Annotations[apps.AnnotationSidecarSetInPlaceState] != "" {
		return // the function lose removes records of upgrades
	}
	forged.Annotations[apps.AnnotationSidecarSetInPlaceState] = texts[w.Rand().IntN(len(texts))]
	w.Logf("user: Pod %s says %s", pod.Name, forged.Annotations[apps.AnnotationSidecarSetInPlaceState])
	w.must(w.User.Update(context.Background(), forged))
}

// lose removes the records of upgrades from the annotations.
func (w *story) lose(pod *corev1.Pod) {
	unknown := slices.ContainsFunc(w.control.Injected(pod), func(set string) bool { return !saysUpgraded(pod, set) })
	if pod.Annotations[apps.AnnotationSidecarSetInPlaceState] == "" || unknown { // without the record, an upgrade in the second of the injection is not visible
		return
	}
	changed := pod.DeepCopy()
	if delete(changed.Annotations, apps.AnnotationSidecarSetInPlaceState); w.Chance(30) {
		changed.Annotations[apps.AnnotationSidecarSetInPlaceState] = "{}"
	}
	w.Logf("user: Pod %s loses its state", pod.Name)
	w.must(w.User.Update(context.Background(), changed))
}

// edit changes a set.
func (w *story) edit(name string) {
	set := w.set(name)
	sidecars, update := sidecarsOf(set), &set.Spec.UpdateStrategy
	c := sidecars[w.Rand().IntN(len(sidecars))]
	switch n := w.Rand().IntN(23); {
	case n < 10:
		c.Image = c.Name + []string{":v1", ":v2", ":v3", ":broken", ":sick"}[w.Rand().IntN(5)]
	case n < 12:
		c.Env = nil
		if w.Chance(30) {
			c.Env = []corev1.EnvVar{{Name: "A", Value: fmt.Sprint(w.Rand().IntN(2))}}
		}
	case n < 14:
		update.MaxUnavailable = w.count(3, "34%", "50%", "100%")
	case n < 16:
		if update.Partition, update.Selector = nil, nil; w.Chance(60) {
			update.Partition = w.count(3, "34%", "100%")
		}
	case n < 17:
		if update.Partition, update.Selector = nil, nil; w.Chance(60) {
			update.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"wave": "a"}}
		}
	case n < 18:
		update.Paused = !update.Paused
	case n < 19:
		if update.Type = pub.SidecarSetRollingUpdate; w.Chance(50) {
			update.Type = pub.SidecarSetNotUpdate
		}
	case n < 20:
		set.Spec.PatchPodMetadata = patches(name, w.Rand().IntN(5))
	case n < 22:
		set.Spec.InjectionStrategy.Revision = w.pin(set)
	default:
		if update.MaxUnavailable = ptr.To(intstr.FromString("many")); w.Chance(50) { // stored without admission
			update.MaxUnavailable = w.count(3, "50%")
		}
	}
	w.update(set)
}

func (w *story) update(set *v1beta1.SidecarSet) {
	w.must(api.Default(set))
	var images []string
	for _, c := range sidecarsOf(set) {
		images = append(images, c.Image)
	}
	u := &set.Spec.UpdateStrategy
	w.Logf("user: %s %v, env %v, %s, %s unavailable, partition %s, selector %v, paused %t", set.Name, images, set.Spec.Containers[0].Env, u.Type, u.MaxUnavailable, u.Partition, u.Selector, u.Paused)
	w.must(w.User.Update(context.Background(), set))
}

func (w *story) denies(call faultapi.Call, _ client.Object) error {
	switch {
	case call.Resource.Resource != "pods":
		return nil
	case w.once[call.Name]:
		delete(w.once, call.Name)
	case call.Name != w.denied || w.denied == "":
		return nil
	}
	return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
}

// settle changes the last spec so that the controller can reach the wanted state. Sometimes the first write is
// refused, and only the back-off leads to a second write.
func (w *story) settle() {
	w.denied = ""
	for _, name := range []string{mesh, logs} {
		set := w.set(name)
		for _, c := range sidecarsOf(set) {
			if c.Image == c.Name+":broken" || c.Image == c.Name+":sick" {
				c.Image = c.Name + ":v3"
			}
		}
		u := &set.Spec.UpdateStrategy
		if u.MaxUnavailable.StrVal == "many" {
			u.MaxUnavailable = ptr.To(intstr.FromInt32(1))
		}
		w.update(set)
	}
	if w.once = map[string]bool{}; w.Chance(30) {
		for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
			w.once[pod.Name] = w.Chance(50)
		}
		w.Logf("admission: refuses the next write to each of %v", w.once)
	}
}
