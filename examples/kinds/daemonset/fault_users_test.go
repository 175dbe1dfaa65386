package daemonset

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// These are the keys of taints: the first keeps new Pods away, the second evicts all Pods, and the third is
// tolerated.
const (
	dedicated = "example.test/dedicated"
	broken    = "example.test/broken"
)

const mostNodes = 6

// twin is the beginning of the hash of revisions that other writers create.
const twin = "twin"

// join adds a Node with a free name. If like is not nil, the Node is a copy of like.
func (w *story) join(like *corev1.Node) {
	var free []string
	for i := range mostNodes + 2 {
		name := fmt.Sprintf("node-%d", i)
		if w.Server.Stored(&corev1.Node{}, client.ObjectKey{Name: name}) == nil {
			free = append(free, name)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: free[w.Rand().IntN(len(free))], Labels: map[string]string{"wave": "a", "pool": "web"}}}
	switch {
	case like != nil:
		node.Labels, node.Spec = like.Labels, like.Spec
	case w.Chance(30):
		node.Labels["wave"] = "b"
	}
	w.Logf("node: %s joins, %v, %v", node.Name, node.Labels, node.Spec.Taints)
	w.must(w.User.Create(context.Background(), node))
}

func (w *story) leave(node *corev1.Node) {
	w.Logf("node: %s goes", node.Name)
	w.must(w.User.Delete(context.Background(), node))
}

// changeNodes makes a random change to a Node.
func (w *story) changeNodes() {
	nodes := faultapi.All[*corev1.Node](w.Server)
	node := nodes[w.Rand().IntN(len(nodes))].DeepCopy()
	switch n := w.Rand().IntN(18); {
	case n < 2:
		if len(nodes) < mostNodes {
			w.join(nil)
		}
		return
	case n < 4:
		if len(nodes) > 2 {
			w.leave(node)
		}
		return
	case n < 6: // the Node joins again with another name
		w.leave(node)
		w.join(node)
		return
	case n < 7: // the Node joins again with the same name
		w.leave(node)
		again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}, Spec: node.Spec}
		w.must(w.User.Create(context.Background(), again))
		return
	case n < 9:
		toggle(node, dedicated, corev1.TaintEffectNoSchedule)
	case n < 11:
		toggle(node, broken, corev1.TaintEffectNoExecute)
	case n < 12:
		toggle(node, corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	case n < 14:
		swap(node, "pool", "web", "db")
	case n < 16:
		swap(node, "wave", "a", "b")
	case n < 17:
		node.Spec.Unschedulable = !node.Spec.Unschedulable
	default: // a heartbeat
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: fmt.Sprint(w.Rand().IntN(1000))}}
		w.must(w.User.Status().Update(context.Background(), node))
		return
	}
	w.Logf("node: %s has labels %v, taints %v, cordoned %t", node.Name, node.Labels, node.Spec.Taints, node.Spec.Unschedulable)
	w.must(w.User.Update(context.Background(), node))
}

func toggle(node *corev1.Node, key string, effect corev1.TaintEffect) {
	has := func(t corev1.Taint) bool { return t.Key == key }
	if slices.ContainsFunc(node.Spec.Taints, has) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, has)
		return
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
}

func swap(node *corev1.Node, key, one, other string) {
	if node.Labels[key] == one {
		one = other
	}
	node.Labels[key] = one
}

// admitPending changes Nodes so that Pods that wait for a Node can run there. A waiting Pod would delay the update
// for a valid reason, and the test could not end.
func (w *story) admitPending() {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		node, ok := w.Server.Stored(&corev1.Node{}, client.ObjectKey{Name: nodeOf(pod)}).(*corev1.Node)
		if pod.Spec.NodeName == "" && ok && (len(node.Spec.Taints) > 0 || node.Spec.Unschedulable || node.Labels["pool"] != "web") {
			node = node.DeepCopy()
			node.Spec, node.Labels["pool"] = corev1.NodeSpec{}, "web"
			w.Logf("node: %s takes Pod %s", node.Name, pod.Name)
			w.must(w.User.Update(context.Background(), node))
		}
	}
}

// meddle creates a Pod as another client: an orphan to adopt, with or without a Node name, a Pod of another owner, or
// a Pod with the name that the controller will give the next Pod on a Node.
func (w *story) meddle() {
	nodes := faultapi.All[*corev1.Node](w.Server)
	node := nodes[w.Rand().IntN(len(nodes))].Name
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("extra-%d", w.Rand().IntN(4))}}
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: fmt.Sprintf("app:v%d", w.Rand().IntN(4))}}
	switch w.Rand().IntN(4) {
	case 0:
		nodefit.Pin(&pod.Spec, node)
	case 1:
		pod.Spec.NodeName = node
	case 2: // the scheduler chooses the Node
	default:
		pod.Name = nodefit.PodName("web", w.owner().UID, node, "web-"+w.owner().Status.UpdateRevision, func(string) bool { return false })
		pod.Labels["app"], pod.Spec.Containers[0].Image = released, foreign
		nodefit.Pin(&pod.Spec, node)
	}
	if err := w.User.Create(context.Background(), pod); err == nil {
		w.Logf("user: Pod %s of app %s on Node %q", pod.Name, pod.Labels["app"], nodeOf(pod))
	}
}

// relabel changes labels so that the DaemonSet does not select a Pod any more, or may adopt the Pod again.
func (w *story) relabel() {
	pod := w.AnyPod()
	switch {
	case pod == nil || pod.Spec.Containers[0].Image == foreign:
	case pod.Labels["app"] == released:
		w.label(pod, "app", "web")
	default:
		w.label(pod, "app", released)
	}
}

func (w *story) label(pod *corev1.Pod, key, value string) {
	changed := pod.DeepCopy()
	if changed.Labels[key] = value; value == "" {
		delete(changed.Labels, key)
	}
	w.Logf("user: Pod %s, label %s=%s", pod.Name, key, value)
	w.must(w.User.Update(context.Background(), changed))
}

// end makes a Pod end, or deletes the Pod as a user.
func (w *story) end() {
	pod := w.AnyPod()
	if pod == nil || pod.Spec.Containers[0].Image == foreign {
		return
	}
	if w.Chance(40) {
		w.Logf("user: Pod %s is deleted", pod.Name)
		w.must(w.User.Delete(context.Background(), pod))
		return
	}
	w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
	w.Logf("node: evict %s, changed %v, reported %v", pod.Name, w.Nodes.Evict(pod.UID), w.Nodes.Report(pod.UID))
}

// twin writes the newest revision a second time, as another version of the controller might, and moves some Pods to
// this copy.
func (w *story) twin() {
	set := w.owner()
	for _, rev := range faultapi.All[*appsv1.ControllerRevision](w.Server) {
		if w.appOfRevision(rev) != appOf(set.Spec.Template.Spec) || !metav1.IsControlledBy(rev, set) {
			continue
		}
		hash := fmt.Sprintf("%s%d", twin, w.Rand().IntN(3))
		again := rev.DeepCopy()
		again.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "web-" + hash, Labels: rev.DeepCopy().Labels, OwnerReferences: rev.OwnerReferences}
		again.Labels[apps.LabelRevision] = hash
		again.Revision += int64(w.Rand().IntN(2))
		if w.User.Create(context.Background(), again) != nil {
			return
		}
		w.Logf("user: revision %s is written once more, as %s", rev.Name, again.Name)
		for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
			if revision.Same(pod.Labels[apps.LabelRevision], rev.Name) && w.Chance(50) {
				w.label(pod, apps.LabelRevision, hash)
			}
		}
		if w.Chance(30) {
			w.policy = 1
			w.Logf("admission: policy %d", w.policy)
		}
		return
	}
}

// hold puts a finalizer on a Pod, or removes the finalizer. A deleted Pod with the finalizer continues to exist,
// although its Node may already be free.
func (w *story) hold(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	pod = pod.DeepCopy()
	if len(pod.Finalizers) > 0 {
		pod.Finalizers = nil
	} else if pod.DeletionTimestamp == nil {
		pod.Finalizers = []string{"example.test/hold"}
	}
	w.Logf("user: Pod %s, finalizers %v", pod.Name, pod.Finalizers)
	w.must(w.User.Update(context.Background(), pod))
}

// release removes the label for which the deletion of a Pod waits.
func (w *story) release() bool {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if pod.Labels[apps.LabelLifecycleState] == "PreparingDelete" && pod.Labels[holdDelete] != "" {
			w.label(pod, holdDelete, "")
			return true
		}
	}
	return false
}
