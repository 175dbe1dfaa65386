package sidecarset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// createPod creates a Pod with the sidecars of one set or of both sets, as the webhook does.
func (w *story) createPod() {
	var sets []*v1beta1.SidecarSet
	var compiled []*sidecarcontrol.Set
	for _, name := range []string{mesh, logs} {
		set := w.set(name)
		c, err := Compile(set, revisionName(set), func(pin *pub.SidecarSetInjectRevision) *appsv1.ControllerRevision {
			return find(w.revisions(name), pin)
		})
		if err == nil && w.Chance(85) {
			sets, compiled = append(sets, set), append(compiled, c)
		}
	}
	w.pods++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("web-%d", w.pods), Labels: map[string]string{"app": "web", "wave": "a"}}}
	if w.Chance(30) {
		pod.Labels["wave"] = "b"
	}
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(w.Rand().IntN(3)))
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1", Env: []corev1.EnvVar{{Name: "A", Value: "app"}}}}
	facts := sidecarcontrol.Facts{Now: time.Now(), Seed: w.Rand().Uint64()}
	bare := pod.DeepCopy()
	if _, err := w.control.Inject(pod, compiled, facts); err != nil {
		w.judgeRefusal(bare, pod, sets, err)
		return
	}
	w.judgeInjection(pod, sets)
	again := pod.DeepCopy()
	if _, err := w.control.Inject(again, compiled, facts); err != nil || !equality.Semantic.DeepEqual(pod, again) {
		w.Failf("injected twice", "Pod %s, error %v", pod.Name, err)
	}
	w.Logf("user: Pod %s with %v", pod.Name, w.control.Injected(pod))
	w.must(w.User.Create(context.Background(), pod))
}

// revisions returns the revisions of a set.
func (w *story) revisions(set string) []*appsv1.ControllerRevision {
	return slices.DeleteFunc(faultapi.All[*appsv1.ControllerRevision](w.Server), func(rev *appsv1.ControllerRevision) bool {
		return rev.Labels[apps.LabelSidecarSetName] != set
	})
}

// pin returns a random revision whose sidecars new Pods must get, or, often, nil.
func (w *story) pin(set *v1beta1.SidecarSet) *pub.SidecarSetInjectRevision {
	revisions := w.revisions(set.Name)
	if len(revisions) == 0 || w.Chance(40) {
		return nil
	}
	pin := &pub.SidecarSetInjectRevision{RevisionName: ptr.To(revisions[w.Rand().IntN(len(revisions))].Name), Policy: pub.InjectRevisionAlways}
	if w.Chance(30) {
		pin.Policy = pub.InjectRevisionPartial
	}
	return pin
}

// pinned returns a SidecarSet with the sidecars of the revision that the injection strategy names, or nil if the
// revision does not exist. If the injection strategy names no revision, pinned returns set.
func (w *story) pinned(set *v1beta1.SidecarSet) *v1beta1.SidecarSet {
	pin := set.Spec.InjectionStrategy.Revision
	if pin == nil {
		return set
	}
	for _, rev := range w.revisions(set.Name) {
		if rev.Name == *pin.RevisionName {
			out := set.DeepCopy()
			out.Spec.Containers, out.Spec.InitContainers, out.Spec.PatchPodMetadata = nil, nil, nil
			w.must(json.Unmarshal(rev.Data.Raw, out))
			return out
		}
	}
	return nil
}

// judgeRefusal checks that injection refuses a Pod only because a revision does not exist, and then does not change
// the Pod.
func (w *story) judgeRefusal(bare, pod *corev1.Pod, sets []*v1beta1.SidecarSet, err error) {
	lost := slices.ContainsFunc(sets, func(set *v1beta1.SidecarSet) bool { return w.pinned(set) == nil })
	var problem reason.Reason
	if list := (reason.List{}); errors.As(err, &list) && len(list) > 0 {
		problem = list[0]
	}
	if !lost || problem.Code != sidecarcontrol.PinnedSetMissing {
		w.Failf("refused", "Pod %s: %v", pod.Name, err)
	}
	if !equality.Semantic.DeepEqual(bare, pod) {
		w.Failf("refused", "Pod %s is refused and has changed", pod.Name)
	}
}

// judgeInjection checks that the Pod has the sidecars of all SidecarSets that select the Pod, and that injection has
// kept all other fields.
func (w *story) judgeInjection(pod *corev1.Pod, sets []*v1beta1.SidecarSet) {
	var names []string
	containers := map[string]bool{"app": true}
	for _, set := range sets {
		names = append(names, set.Name)
		version, strict := w.pinned(set), true
		if pin := set.Spec.InjectionStrategy.Revision; pin != nil && pin.Policy == pub.InjectRevisionPartial {
			strict = false // the Pod may have got the sidecars before or after an edit
		}
		if version != nil && strict || set.Spec.InjectionStrategy.Revision == nil {
			if has, why := hasVersion(pod, version); !has {
				w.Failf("injection", "Pod %s has not the right version of set %s: %s", pod.Name, set.Name, why)
			}
		}
		for _, name := range ownNames(set) {
			containers[name] = true
			if container(pod, name) == nil {
				w.Failf("injection", "Pod %s has no container %s", pod.Name, name)
			}
		}
		for i := range set.Spec.InitContainers {
			containers[set.Spec.InitContainers[i].Name] = true
		}
		for _, key := range []string{"example.test/" + set.Name, "example.test/first-" + set.Name} {
			if pod.Annotations[key] == "" {
				w.Failf("injection", "Pod %s has no annotation %s", pod.Name, key)
			}
		}
		if w.control.RevisionOf(pod, set.Name) == "" {
			w.Failf("injection", "Pod %s does not say at which revision of set %s it is", pod.Name, set.Name)
		}
	}
	slices.Sort(names)
	if got := pod.Annotations[apps.AnnotationSidecarSetInjected]; got != strings.Join(names, ",") {
		w.Failf("injection", "Pod %s says that it has %q, and has %v", pod.Name, got, names)
	}
	w.judgeContainers(pod, containers)
}

// judgeContainers checks that each container exists once, with its volumes, and the container of the application is
// unchanged.
func (w *story) judgeContainers(pod *corev1.Pod, want map[string]bool) {
	volumes := map[string]bool{}
	for i := range pod.Spec.Volumes {
		volumes[pod.Spec.Volumes[i].Name] = true
	}
	there := map[string]bool{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if there[c.Name] || !want[c.Name] {
				w.Failf("injection", "Pod %s has a container %s that nobody wants, or has it twice", pod.Name, c.Name)
			}
			there[c.Name] = true
			for _, mount := range c.VolumeMounts {
				if !volumes[mount.Name] {
					w.Failf("injection", "container %s of Pod %s mounts %s, which is not there", c.Name, pod.Name, mount.Name)
				}
			}
		}
	}
	if app := container(pod, "app"); app.Image != "app:v1" || len(app.Env) != 1 || app.Env[0].Value != "app" {
		w.Failf("injection", "Pod %s has another application: %v", pod.Name, app)
	}
}

func container(pod *corev1.Pod, name string) *corev1.Container { return podstate.Container(pod, name) }

// ownNames returns the container names of a set's upgradable sidecars.
func ownNames(set *v1beta1.SidecarSet) (names []string) {
	for _, c := range sidecarsOf(set) {
		if c.UpgradeStrategy.UpgradeType == pub.SidecarHotUpgrade {
			names = append(names, c.Name+"-1", c.Name+"-2")
			continue
		}
		names = append(names, c.Name)
	}
	return names
}

// hasVersion reports whether the containers of a Pod have the images and the environment of a set. why names a
// difference.
func hasVersion(pod *corev1.Pod, set *v1beta1.SidecarSet) (has bool, why string) {
	for _, c := range sidecarsOf(set) {
		name := c.Name
		if c.UpgradeStrategy.UpgradeType == pub.SidecarHotUpgrade {
			name = worksIn(pod, c.Name)
		}
		in := container(pod, name)
		if in == nil || in.Image != c.Image {
			return false, fmt.Sprintf("container %q is not %s", name, c.Image)
		}
	}
	return hasEnv(pod, set)
}

// hasEnv reports whether a Pod's sidecars have the environment of the set. Upgrades in place cannot change the
// environment.
func hasEnv(pod *corev1.Pod, set *v1beta1.SidecarSet) (has bool, why string) {
	value := func(env []corev1.EnvVar) string {
		if i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "A" }); i >= 0 {
			return env[i].Value
		}
		return ""
	}
	for _, c := range sidecarsOf(set) {
		name := c.Name
		if c.UpgradeStrategy.UpgradeType == pub.SidecarHotUpgrade {
			name += "-1"
		}
		if in := container(pod, name); in == nil || value(in.Env) != value(c.Env) {
			return false, fmt.Sprintf("env of container %q", name)
		}
	}
	return true, ""
}

// worksIn returns the container of a hot sidecar that the Pod's annotation names as the working container.
func worksIn(pod *corev1.Pod, sidecar string) string {
	works := map[string]string{}
	_ = json.Unmarshal([]byte(pod.Annotations[apps.AnnotationSidecarSetWorking]), &works)
	return works[sidecar]
}
