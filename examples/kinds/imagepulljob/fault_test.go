package imagepulljob

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, at most as many Nodes pull as a job allows, and a NodeImage keeps the job's request
// for an image as long as the job needs the request. A job ends only for a reason, and stays ended. Copies of Secrets
// contain no credentials of other registries. A NodeImage exists exactly as long as its Node. If kubelets pull, the
// same rules apply to Pods instead of requests, and no Secret is copied. In the end each job that is able to end has
// ended, and has no copies of Secrets left.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t, false)) }

// TestFaultsAtEnd: if a job ends in the same reconcile that copies Secrets, no copy is left in the end, even if a
// user deletes the job at once.
func TestFaultsAtEnd(t *testing.T) { chaos.Run(t, plan(t, true)) }

// TestFaultsReplay checks that a schedule depends on its seed alone.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t, false), 3) }

func plan(t testing.TB, atEnd bool) chaos.Plan {
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Seeds: 150, Steps: 300, Quiet: 3 * time.Minute,
		Kinds: []client.Object{&v1beta1.ImagePullJob{}, faultapi.ClusterWide(&v1beta1.NodeImage{}), &corev1.Node{}, &corev1.Secret{}},
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, atEnd: atEnd}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.answer, Settle: w.settle,
				Denies: w.denies, Looks: w.look, Wrote: w.judge, Converged: w.converged,
			}
		},
	}
}

// story is the state of one schedule of the test.
type story struct {
	*chaos.World

	// policy selects the writes that the API server refuses: 0 none, 1 NodeImages, 2 copies of Secrets, 3 Pods.
	policy int
	// atEnd says that all jobs select missing Nodes, and so end at once.
	atEnd bool
}

const team = "team-a"

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	options := kruise.Options{RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}}
	return errors.Join(
		nodeimage.Setup(ctx, mgr, mgr.GetClient(), nodeimage.Options{Options: options, CreationDelay: new(time.Second)}),
		Setup(ctx, mgr, mgr.GetClient(), Options{Options: options, Registries: []string{"*"}}),
	)
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func nodeNames() []string { return []string{"n0", "n1", "n2", "n3"} }

// oldNode is a Node without image volumes.
const oldNode = "n3"

func jobNames() []string { return []string{"one", "two", "three"} }

func (w *story) begin() {
	for _, name := range nodeNames() {
		w.newNode(name)
	}
	w.newSecret()
	for _, name := range jobNames() {
		w.submit(name)
	}
}

func (w *story) newNode(name string) {
	w.Logf("user: Node %s", name)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "a"}}}
	if w.User.Create(context.Background(), node) == nil {
		w.setReady(node, true)
	}
}

func (w *story) setReady(node *corev1.Node, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", ContainerRuntimeVersion: "containerd://2.1.0"}
	if node.Name == oldNode {
		node.Status.NodeInfo.ContainerRuntimeVersion = "containerd://1.7.0"
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute))}}
	w.must(w.User.Status().Update(context.Background(), node))
}

// newSecret returns the pull secret of the jobs, with credentials for the registry of the jobs and for another
// registry.
func (w *story) newSecret() {
	auth := func() string {
		return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "user:password-%d", w.Rand().IntN(9)))
	}
	config := fmt.Sprintf(`{"auths":{"example.test":{"auth":%q},"other.test":{"auth":%q}}}`, auth(), auth())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson}
	secret.Data = map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)}
	before, _ := w.Server.Stored(secret, client.ObjectKeyFromObject(secret)).(*corev1.Secret)
	w.Logf("user: the pull secret changes")
	if before == nil {
		w.must(w.User.Create(context.Background(), secret))
		return
	}
	before = before.DeepCopy()
	before.Data = secret.Data
	w.must(w.User.Update(context.Background(), before))
}

// submit makes a job.
func (w *story) submit(name string) {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name}}
	job.Spec.Image = w.image()
	job.Spec.ImagePullPolicy = "IfNotPresent"
	job.Spec.Parallelism = new(intstr.FromInt32(int32(w.Rand().IntN(4))))
	job.Spec.CompletionPolicy.Type = v1beta1.Always
	switch {
	case w.Chance(15):
		job.Spec.CompletionPolicy.Type = v1beta1.Never
	case w.Chance(40):
		job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: new(int32(5))}
		job.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(5 + w.Rand().IntN(60)))
	}
	if job.Spec.CompletionPolicy.Type == v1beta1.Always && w.Chance(40) {
		job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(w.Rand().IntN(30)))
	}
	if w.Chance(60) {
		job.Spec.PullSecrets = []string{"pull"}
	}
	if w.Chance(40) {
		job.Spec.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{"n2", "n0"}}
		if w.Chance(25) { // the job ends at once
			job.Spec.Selector.Names = []string{"missing"}
		}
	}
	if w.Chance(40) {
		job.Annotations = map[string]string{apps.AnnotationPullThrough: apps.PullThroughKubelet}
	}
	if w.atEnd {
		job.Annotations, job.Spec.PullSecrets, job.Spec.Image = nil, []string{"pull"}, "example.test/app:v1"
		job.Spec.CompletionPolicy.Type = v1beta1.Always
		job.Spec.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{"missing"}}
	}
	policy, err := json.Marshal(job.Spec.CompletionPolicy)
	w.must(err)
	w.Logf("user: job %s of %s, %s at once, %s, secrets %v, through %s", name, job.Spec.Image, job.Spec.Parallelism, policy, job.Spec.PullSecrets, job.Annotations[apps.AnnotationPullThrough])
	w.must(w.User.Create(context.Background(), job))
}

func (w *story) image() string {
	return []string{"example.test/app:v1", "example.test/app:v2", "nginx:1"}[w.Rand().IntN(3)]
}

func (w *story) job(name string) *v1beta1.ImagePullJob {
	job, _ := w.Server.Stored(&v1beta1.ImagePullJob{}, client.ObjectKey{Namespace: team, Name: name}).(*v1beta1.ImagePullJob)
	if job == nil {
		return nil
	}
	return job.DeepCopy()
}

func (w *story) node(name string) *corev1.Node {
	node, _ := w.Server.Stored(&corev1.Node{}, client.ObjectKey{Name: name}).(*corev1.Node)
	if node == nil {
		return nil
	}
	return node.DeepCopy()
}

func (w *story) users() {
	name := jobNames()[w.Rand().IntN(3)]
	job, node := w.job(name), w.node(nodeNames()[w.Rand().IntN(4)])
	switch n := w.Rand().IntN(40); {
	case job == nil:
		w.submit(name)
	case w.atEnd && job.Status.CompletionTime != nil && job.DeletionTimestamp == nil:
		w.Logf("user: job %s has ended, and is deleted", name)
		w.must(w.User.Delete(context.Background(), job))
	case n < 3:
		w.policy = w.Rand().IntN(4)
		w.Logf("admission: policy %d", w.policy)
	case n < 20:
		w.report(w.Chance(30))
	case n < 23 && node != nil:
		ready := w.Chance(60)
		w.Logf("node: %s is ready: %t", node.Name, ready)
		w.setReady(node, ready)
	case n < 25 && node != nil:
		w.Logf("user: Node %s is deleted", node.Name)
		w.must(w.User.Delete(context.Background(), node))
	case n < 27 && node != nil:
		node.Labels["zone"] = []string{"a", "b"}[w.Rand().IntN(2)]
		w.must(w.User.Update(context.Background(), node))
	case n < 29:
		for _, name := range nodeNames() {
			if w.node(name) == nil {
				w.newNode(name)
				return
			}
		}
	case n < 31:
		w.newSecret()
	case n == 31 && w.Chance(60):
		broken := w.Chance(60)
		w.Logf("registry: image v2 is broken: %t", broken)
		w.Nodes.Images.SetBroken("example.test/app:v2", broken)
	case n < 32:
		w.Logf("user: the pull secret is deleted")
		w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "pull"}})))
	case n < 34:
		w.Sleep(time.Duration(w.Rand().IntN(20)) * time.Second)
	case n == 35 && isThrough(job):
		w.evict(job)
	case n < 36 && job.DeletionTimestamp == nil:
		w.Logf("user: job %s is deleted", name)
		w.must(w.User.Delete(context.Background(), job))
	case job.DeletionTimestamp == nil:
		w.edit(job)
	}
}

func (w *story) edit(job *v1beta1.ImagePullJob) {
	if job.Spec.Parallelism = new(intstr.FromInt32(int32(w.Rand().IntN(4)))); w.Chance(50) {
		job.Spec.Image = w.image()
	}
	if w.Chance(15) {
		way := map[bool]string{true: apps.PullThroughAgent, false: apps.PullThroughKubelet}[isThrough(job)]
		job.Annotations = map[string]string{apps.AnnotationPullThrough: way}
		w.Logf("user: job %s pulls through %s", job.Name, way)
	}
	w.Logf("user: job %s of %s, %s at once", job.Name, job.Spec.Image, job.Spec.Parallelism)
	w.must(w.User.Update(context.Background(), job))
}

// report lets the agent of one Node begin a pull or end a pull.
func (w *story) report(badly bool) bool {
	for _, image := range faultapi.All[*v1beta1.NodeImage](w.Server) {
		if node := w.node(image.Name); node == nil || !isReady(node) || image.DeletionTimestamp != nil {
			continue
		}
		for name, in := range sortedImages(image) {
			for i := range in.Tags {
				if w.reportTag(image.DeepCopy(), name, &in.Tags[i], badly) {
					return true
				}
			}
		}
	}
	return false
}

func (w *story) reportTag(image *v1beta1.NodeImage, name string, tag *v1beta1.ImageTagSpec, badly bool) bool {
	in := image.Status.ImageStatuses[name]
	now := metav1.NewTime(time.Now())
	status := v1beta1.ImageTagStatus{Tag: tag.Tag, Version: tag.Version, Phase: v1beta1.ImagePhasePulling, StartTime: &now}
	i := indexOf(in.Tags, tag.Tag)
	switch {
	case i >= 0 && in.Tags[i].Version == tag.Version && isFinal(in.Tags[i].Phase):
		return false
	case i >= 0 && in.Tags[i].Version == tag.Version:
		status.Phase, status.CompletionTime = v1beta1.ImagePhaseSucceeded, &now
		if badly {
			status.Phase, status.Message = v1beta1.ImagePhaseFailed, "no such image"
		}
	}
	if i >= 0 {
		in.Tags[i] = status
	} else {
		in.Tags = append(in.Tags, status)
	}
	if image.Status.ImageStatuses == nil {
		image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{}
	}
	image.Status.ImageStatuses[name] = in
	w.Logf("agent of %s: %s:%s version %d is %s", image.Name, name, tag.Tag, tag.Version, status.Phase)
	w.must(w.User.Status().Update(context.Background(), image))
	return true
}

// answer lets the agent of one Node begin a pull, or end a pull successfully.
func (w *story) answer() bool { return w.report(false) }

func (w *story) denies(call faultapi.Call, _ client.Object) error {
	switch {
	case call.Resource.Resource == "nodeimages" && w.policy == 1 || call.Resource.Resource == "secrets" && w.policy == 2:
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
	case call.Resource.Resource == "pods" && call.Verb == "create" && w.policy == 3:
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("exceeded quota: small"))
	}
	return nil
}

// settle removes all obstacles, so that the controllers can reach the final state: no write is refused, and all Nodes
// are ready.
func (w *story) settle() {
	w.policy = 0
	w.Nodes.Images.SetBroken("example.test/app:v2", false)
	for _, name := range nodeNames() {
		if node := w.node(name); node != nil {
			w.setReady(node, true)
		}
	}
	for _, name := range jobNames() {
		if job := w.job(name); job != nil && job.DeletionTimestamp == nil && job.Spec.Parallelism.IntValue() == 0 {
			job.Spec.Parallelism = new(intstr.FromInt32(2))
			w.must(w.User.Update(context.Background(), job))
		}
	}
}
