package nodejobs

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, a Node has at most one Pod of a job, no more Pods start than allowed, each Pod is
// deleted for a valid reason, and an ended job stays ended. In the end every job has ended, with the right numbers.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 3) }

func plan(t testing.TB) chaos.Plan {
	return chaos.Plan{
		Scheme: newScheme(t), Kinds: []client.Object{&NodeJob{}, &corev1.Node{}}, Steps: 200, Quiet: 3 * time.Minute,
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world}
			return chaos.Subject{
				Setup: setup,
				Begin: w.begin, Users: w.users, Outside: w.finish, Settle: w.settle, Denies: w.denies, Looks: w.look, Wrote: w.judge, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	denied string // the verb of refused requests for Pods
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	for range 3 + w.Rand().IntN(3) {
		w.join()
	}
	w.submit()
}

func (w *story) submit() {
	job := &NodeJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "check"}}
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}
	w.limits(job)
	w.must(w.User.Create(context.Background(), job))
}

func (w *story) limits(job *NodeJob) {
	job.Spec.Parallelism = []*intstr.IntOrString{nil, ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromInt32(2)), ptr.To(intstr.FromString("50%"))}[w.Rand().IntN(4)]
	job.Spec.DeadlineSeconds, job.Spec.TTLSeconds = nil, nil
	if w.Chance(30) {
		job.Spec.DeadlineSeconds = ptr.To(int64(10 + w.Rand().IntN(60)))
	}
	if w.Chance(30) {
		job.Spec.TTLSeconds = ptr.To(int64(w.Rand().IntN(30)))
	}
	w.Logf("user: parallelism %v, deadline %d, TTL %d", job.Spec.Parallelism, ptr.Deref(job.Spec.DeadlineSeconds, -1), ptr.Deref(job.Spec.TTLSeconds, -1))
}

// job returns the present job, or nil if there is none.
func (w *story) job() *NodeJob {
	job, _ := w.Server.Stored(&NodeJob{}, client.ObjectKey{Namespace: "default", Name: "check"}).(*NodeJob)
	if job == nil {
		return nil
	}
	return job.DeepCopyObject().(*NodeJob) //nolint:forcetypeassert // of the same type
}

func (w *story) users() {
	job := w.job()
	switch n := w.Rand().IntN(40); {
	case job == nil:
		w.submit()
	case n < 4:
		w.denied = []string{"", "create", "delete"}[w.Rand().IntN(3)]
		w.Logf("admission: refuses %q of Pods", w.denied)
	case n < 14:
		w.changeNodes()
	case n < 26:
		w.exit(w.AnyPod(), int32(w.Rand().IntN(4)/3))
	case n < 28:
		w.Logf("user: the job is deleted")
		w.must(w.User.Delete(context.Background(), job))
	case n < 30:
		if pod := w.AnyPod(); pod != nil {
			w.Logf("user: Pod %s is deleted", pod.Name)
			w.must(w.User.Delete(context.Background(), pod))
		}
	case n < 33:
		w.Sleep(time.Duration(w.Rand().IntN(20)) * time.Second)
	case n < 36:
		job.Spec.Paused = !job.Spec.Paused
		w.Logf("user: paused %t", job.Spec.Paused)
		w.must(w.User.Update(context.Background(), job))
	default:
		w.limits(job)
		w.must(w.User.Update(context.Background(), job))
	}
}

func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if call.Resource.Resource == "pods" && call.Verb == w.denied {
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
	}
	return nil
}

func (w *story) join() {
	for i := range 6 {
		name := fmt.Sprintf("node-%d", i)
		if w.Server.Stored(&corev1.Node{}, client.ObjectKey{Name: name}) == nil {
			w.Logf("node: %s joins", name)
			w.must(w.User.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
			return
		}
	}
}

// dedicated is the key of a taint that keeps new Pods away from a Node, and evicts running Pods.
const dedicated = "example.test/dedicated"

func (w *story) changeNodes() {
	nodes := faultapi.All[*corev1.Node](w.Server)
	node := nodes[w.Rand().IntN(len(nodes))].DeepCopy()
	switch n := w.Rand().IntN(10); {
	case n < 3:
		w.join()
		return
	case n < 5:
		if len(nodes) > 2 {
			w.Logf("node: %s goes", node.Name)
			w.must(w.User.Delete(context.Background(), node))
		}
		return
	case n < 7:
		node.Spec.Unschedulable = !node.Spec.Unschedulable
	case len(node.Spec.Taints) > 0:
		node.Spec.Taints = nil
	default:
		node.Spec.Taints = []corev1.Taint{{Key: dedicated, Effect: corev1.TaintEffectNoExecute}}
	}
	w.Logf("node: %s has taints %v, cordoned %t", node.Name, node.Spec.Taints, node.Spec.Unschedulable)
	w.must(w.User.Update(context.Background(), node))
}

// exit ends the container of a Pod.
func (w *story) exit(pod *corev1.Pod, code int32) bool {
	if pod == nil || pod.Spec.NodeName == "" || podstate.HasEnded(pod) {
		return false
	}
	w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
	w.Nodes.Run(pod.UID)
	did := w.Nodes.Exit(pod.UID, "app", code)
	reported := w.Nodes.Report(pod.UID)
	w.Logf("node: %s exits with %d: %t, reported %t", pod.Name, code, did, reported)
	return did || reported
}

// finish ends running Pods successfully, one at a time.
func (w *story) finish() bool {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if pod.DeletionTimestamp == nil && w.exit(pod, 0) {
			return true
		}
	}
	return false
}

// settle ends the refusals of requests and the pause of the job, so that the job can end.
func (w *story) settle() {
	w.denied = ""
	if w.job() == nil {
		w.submit()
	}
	if job := w.job(); job.Spec.Paused {
		job.Spec.Paused = false
		w.must(w.User.Update(context.Background(), job))
	}
	for _, node := range faultapi.All[*corev1.Node](w.Server)[:1] { // so that the job has at least one Node
		node = node.DeepCopy()
		node.Spec.Taints, node.Spec.Unschedulable = nil, false
		w.must(w.User.Update(context.Background(), node))
	}
}

// sight is the input of a reconciliation.
type sight struct {
	job   *NodeJob
	pods  []*corev1.Pod
	nodes map[string]*corev1.Node
	acts  bool
	made  int
	now   time.Time
}

func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	v, _ := t.View.(*sight)
	if v != nil && (v.acts || call != nil && !call.IsRead()) {
		v.acts = true
		return
	}
	v = &sight{nodes: map[string]*corev1.Node{}, now: time.Now(), job: &NodeJob{}, acts: call != nil && !call.IsRead()}
	t.View = v
	if t.Process.Cache.Get(context.Background(), t.Object, v.job) != nil {
		v.job = nil
		return
	}
	var pods corev1.PodList
	var nodes corev1.NodeList
	w.must(errors.Join(t.Process.Cache.List(context.Background(), &pods), t.Process.Cache.List(context.Background(), &nodes)))
	for i := range pods.Items {
		if metav1.IsControlledBy(&pods.Items[i], v.job) {
			v.pods = append(v.pods, &pods.Items[i])
		}
	}
	for i := range nodes.Items {
		v.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
}

func nodeOf(pod *corev1.Pod) string {
	name, _ := nodefit.NodeOf(pod)
	return name
}

func (v *sight) fits(node string) bool {
	n := v.nodes[node]
	return n != nil && len(n.Spec.Taints) == 0 && !n.Spec.Unschedulable
}

func (v *sight) over() bool { return v.job.Status.Ended != nil }

func (w *story) judge(x *chaos.Write) {
	v, _ := x.Task.View.(*sight)
	before, _ := x.Before.(*corev1.Pod)
	after, _ := x.After.(*corev1.Pod)
	switch {
	case v == nil || v.job == nil:
		w.Failf("view", "%s without a job", x.Call)
	case x.Call.Resource.Resource == "nodejobs":
		w.judgeJob(v, x)
	case before == nil && after != nil:
		w.judgeCreation(v, after)
	case x.Call.Verb == "delete":
		w.judgeDeletion(v, before)
	default:
		w.Failf("stranger", "%s", x.Call)
	}
}

// judgeJob checks that an end is recorded only once, and a job is deleted only after its TTL.
func (w *story) judgeJob(v *sight, x *chaos.Write) {
	before, _ := x.Before.(*NodeJob)
	after, _ := x.After.(*NodeJob)
	switch was := before.Status.Ended; {
	case before.UID != v.job.UID:
		w.Failf("successor", "%s of a job of the same name", x.Call)
	case x.Call.Verb == "delete":
		if ttl := before.Spec.TTLSeconds; was == nil || ttl == nil || v.now.Before(was.Add(time.Duration(*ttl)*time.Second)) {
			w.Failf("ttl", "the job is deleted, ended %v, TTL %d", was, ptr.Deref(ttl, -1))
		}
	case was != nil && (after.Status.Ended == nil || !was.Equal(after.Status.Ended) || before.Status.State != after.Status.State):
		w.Failf("over", "the job had ended: %+v, and becomes %+v", before.Status, after.Status)
	}
}

// judgeCreation checks that the Node of a new Pod fits and has no other Pod of the job, and that the parallelism
// allows another Pod.
func (w *story) judgeCreation(v *sight, pod *corev1.Pod) {
	node, active := nodeOf(pod), 0
	for _, other := range v.pods {
		if completion.StandingOf(other, 0) == completion.Active {
			active++
		}
	}
	fitting := 0
	for name := range v.nodes {
		if v.fits(name) {
			fitting++
		}
	}
	v.made++
	switch {
	case !v.fits(node):
		w.Failf("fit", "Pod %s for Node %s: %+v", pod.Name, node, v.nodes[node])
	case v.job.Spec.Paused || v.over():
		w.Failf("over", "Pod %s is made, paused %t, status %+v", pod.Name, v.job.Spec.Paused, v.job.Status)
	}
	if p := v.job.Spec.Parallelism; p != nil && p.Type == intstr.Int && active+v.made > int(p.IntVal) {
		w.Failf("parallelism", "%d run and %d are made, of %s", active, v.made, p)
	}
	for _, other := range faultapi.All[*corev1.Pod](w.Server) {
		if other.UID != pod.UID && metav1.IsControlledBy(other, v.job) && nodeOf(other) == node && other.DeletionTimestamp == nil {
			w.Failf("twins", "Pods %s and %s on Node %s", pod.Name, other.Name, node)
		}
	}
}

// judgeDeletion checks that only a Pod that has not ended is deleted, because its Node does not fit any more, or
// because its job has ended or was deleted. A cordon does not lead to the deletion of running Pods.
func (w *story) judgeDeletion(v *sight, pod *corev1.Pod) {
	i := slices.IndexFunc(v.pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
	if i < 0 || podstate.HasEnded(pod) {
		w.Failf("reason", "Pod %s is deleted, seen %t, ended %t", pod.Name, i >= 0, podstate.HasEnded(pod))
	}
	node := v.nodes[nodeOf(v.pods[i])]
	stays := node != nil && len(node.Spec.Taints) == 0 && (!node.Spec.Unschedulable || v.pods[i].Spec.NodeName != "")
	if stored := w.job(); stays && stored != nil && stored.UID == v.job.UID && stored.Status.Ended == nil {
		w.Failf("reason", "Pod %s is deleted, whose Node fits: %+v", pod.Name, v.job.Status)
	}
}

// converged checks that every job that has fitting Nodes has ended with the right numbers, and no Pod runs.
func (w *story) converged() {
	job := w.job()
	if job == nil {
		return // deleted after its TTL
	}
	status := job.Status
	if status.Ended == nil || status.ObservedGeneration != job.Generation || status.Active != 0 {
		w.Failf("converged", "%+v", status)
	}
	if status.State == completion.Complete && (status.Done != status.Nodes || status.Nodes == 0) {
		w.Failf("converged", "complete, with %+v", status)
	}
	if job.Spec.TTLSeconds != nil {
		w.Failf("converged", "the job is still there: %+v", status)
	}
	uids := map[types.UID]string{}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if metav1.IsControlledBy(pod, job) && !podstate.HasEnded(pod) {
			uids[pod.UID] = pod.Name
		}
	}
	if len(uids) > 0 {
		w.Failf("converged", "the job is over, and Pods run: %v", uids)
	}
}
