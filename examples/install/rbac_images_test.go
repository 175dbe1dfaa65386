package install_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage/onnode"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// imageNode is the name of the Node in the tests of images and probes.
const imageNode = "rights"

// nowhere returns a spec with a list of images for a Node that does not exist, so the job ends at once.
func nowhere() v1beta1.ImageListPullJobSpec {
	spec := v1beta1.ImageListPullJobSpec{Images: []string{"example.test/app:v1"}}
	spec.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{"nowhere"}}
	spec.CompletionPolicy.Type = v1beta1.Always
	return spec
}

// gone waits until an object does not exist.
func (c *cluster) gone(obj client.Object) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 2*time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T is there: %+v, %w", obj, obj, err)
		}
		return nil
	})
}

// node creates a Node that has been ready for an hour.
func (c *cluster) node() *corev1.Node {
	c.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: imageNode}}
	if err := c.Create(c.t.Context(), node); err != nil {
		c.t.Fatal(err)
	}
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)), LastHeartbeatTime: metav1.Now(),
	}}
	// A patch is used, because the controller manager writes Nodes at the same time.
	if err := c.Status().Patch(c.t.Context(), node, client.MergeFrom(before)); err != nil {
		c.t.Fatal(err)
	}
	return node
}

// liveImages creates jobs that pull a list of images, and an image with a pull secret, on a Node; the test acts as
// the agent of the Node. The jobs are deleted after their TTL, and the NodeImage together with the Node.
func (c *cluster) liveImages(ns string) {
	c.t.Helper()
	node := c.node()
	image := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: imageNode}}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(image), image) })
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: `{"auths":{"example.test":{"auth":"YTpi"}}}`},
	}
	list := &v1beta1.ImageListPullJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "warm"}, Spec: nowhere()}
	list.Spec.Selector.Names, list.Spec.CompletionPolicy.TTLSecondsAfterFinished = []string{imageNode}, ptr.To[int32](0)
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "private"}}
	job.Spec.Image, job.Spec.PullSecrets, job.Spec.Selector = "example.test/private:v1", []string{"pull"}, list.Spec.Selector
	job.Spec.CompletionPolicy = list.Spec.CompletionPolicy
	for _, object := range []client.Object{secret, list, job} {
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(image), image); err != nil {
			return err
		}
		wants := onnode.Wants(&image.Spec)
		if len(wants) < 2 {
			return fmt.Errorf("wanted %+v", wants)
		}
		var reports []imagepull.Report
		for i := range wants {
			reports = append(reports, imagepull.Report{Image: wants[i].Image, Round: wants[i].Round, Phase: imagepull.Succeeded, Present: true, Ended: time.Now()})
		}
		onnode.SetReports(image, reports, time.Now())
		return c.Status().Update(ctx, image)
	})
	c.gone(list)
	c.gone(job)
	if err := c.Delete(c.t.Context(), node); err != nil {
		c.t.Fatal(err)
	}
	c.gone(image)
	c.gone(&v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: imageNode}})
}

// liveProbes makes the manager create and delete the probes of a Pod for a PodProbeMarker.
func (c *cluster) liveProbes(ns string) {
	c.t.Helper()
	labels := map[string]string{"rights": "probes"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probed", Labels: labels}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	marker := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "role"}}
	marker.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	marker.Spec.Probes = []v1alpha1.PodContainerProbe{{Name: "primary", ContainerName: "app", PodConditionType: "example.com/primary"}}
	marker.Spec.Probes[0].Probe.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}
	for _, object := range []client.Object{pod, marker} {
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		var lists v1alpha1.NodePodProbeList
		if err := c.List(ctx, &lists); err != nil {
			return err
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(marker), marker); err != nil {
			return err
		}
		isProbed := slices.ContainsFunc(lists.Items, func(l v1alpha1.NodePodProbe) bool {
			return slices.ContainsFunc(l.Spec.PodProbes, func(p v1alpha1.PodProbe) bool { return p.Name == pod.Name })
		})
		if !isProbed || marker.Status.MatchedPods != 1 {
			return fmt.Errorf("lists %+v, marker %+v", lists.Items, marker.Status)
		}
		return nil
	})
	if err := c.Delete(c.t.Context(), marker); err != nil {
		c.t.Fatal(err)
	}
	c.gone(marker)
}
