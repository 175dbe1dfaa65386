package imagepulljob_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage/onnode"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// NodeImages are cluster-scoped and would collide with other tests, so the package has its own control plane.
var env = controlplanetest.New(controlplane.Options{Nodes: 3})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// cluster is the test's client for the control plane, with the test's namespace.
type cluster struct {
	client.WithWatch
	t         testing.TB
	namespace string
}

// start runs the controllers of image jobs, and of further kinds.
func start(t testing.TB, more ...string) *cluster {
	t.Helper()
	cp := env.Start(t)
	c := &cluster{WithWatch: controllertest.Client(t, cp), t: t, namespace: env.Namespace(t)}
	copies := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: apps.NamespacePullSecrets}}
	if err := c.Create(t.Context(), copies); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	rows := slices.DeleteFunc(kinds.All(), func(k kind.Row) bool {
		return !slices.Contains(append(more, "NodeImage", "ImagePullJob", "ImageListPullJob"), k.Kind.Kind)
	})
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	kind.AddFlags(rows, flags)
	if err := flags.Parse([]string{"--nodeimage-creation-delay=1s"}); err != nil {
		t.Fatal(err)
	}
	gates := apps.ResolveGates(map[apps.Gate]bool{apps.GatePreDownloadImageForInPlaceUpdate: true, apps.GatePreDownloadImageForDaemonSetUpdate: true})
	controllertest.Manager(t, cp, manager.Options{Kinds: rows, Loops: []kinds.Loop{}, Gates: gates})
	return c
}

func (c *cluster) create(object client.Object) {
	c.t.Helper()
	if err := c.Create(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
}

// agents acts once as the agents of all Nodes: each wanted image is reported as pulled, or as failed if the name of
// the image contains "broken".
func (c *cluster) agents(ctx context.Context) error {
	images := &v1beta1.NodeImageList{}
	if err := c.List(ctx, images); err != nil {
		return err
	}
	for i := range images.Items {
		obj := &images.Items[i]
		var reports []imagepull.Report
		for _, want := range onnode.Wants(&obj.Spec) {
			now := time.Now()
			report := imagepull.Report{Image: want.Image, Round: want.Round, Phase: imagepull.Succeeded, Present: true, Started: now, Ended: now}
			if strings.Contains(want.Image.Name(), "broken") {
				report.Phase, report.Present, report.Message = imagepull.Failed, false, "manifest unknown"
			}
			reports = append(reports, report)
		}
		known := onnode.Reports(obj)
		isNew := func(r imagepull.Report) bool {
			return !slices.ContainsFunc(known, func(k imagepull.Report) bool { return k.Image == r.Image && k.Round == r.Round && k.Phase == r.Phase })
		}
		if !slices.ContainsFunc(reports, isNew) {
			continue
		}
		onnode.SetReports(obj, reports, time.Now())
		if err := client.IgnoreNotFound(c.Status().Update(ctx, obj)); err != nil {
			return err
		}
	}
	return nil
}

// until waits until is returns true for an object. If agents is true, the agents work meanwhile.
func (c *cluster) until(object client.Object, agents bool, is func() bool) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if agents {
			if err := c.agents(ctx); err != nil {
				return err
			}
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if !is() {
			return fmt.Errorf("%T %s: %+v", object, object.GetName(), object)
		}
		return nil
	})
}

// copies returns a line about each copy of a Secret: its source, its holders and its content.
func (c *cluster) copies(ctx context.Context) (out []string, err error) {
	secrets := &corev1.SecretList{}
	err = c.List(ctx, secrets, client.InNamespace(apps.NamespacePullSecrets))
	for i := range secrets.Items {
		s := &secrets.Items[i]
		out = append(out, s.Annotations[apps.AnnotationSecretSource]+" for "+s.Annotations[apps.AnnotationSecretHolders]+" "+string(s.Data[corev1.DockerConfigJsonKey]))
	}
	return out, err
}

// TestPulls runs jobs from creation to deletion on a real API server: NodeImages of Nodes, a copy of a Secret,
// requests for images in NodeImages, reports of agents, the end of a job, and the jobs of an ImageListPullJob.
func TestPulls(t *testing.T) {
	c := start(t)
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		images := &v1beta1.NodeImageList{}
		if err := c.List(ctx, images); err != nil || len(images.Items) != 3 {
			return fmt.Errorf("IP-30: %d NodeImages: %w", len(images.Items), err)
		}
		return nil
	})
	const auth = `{"auths":{"reg.test":{"auth":"YTpi"},"other.test":{"auth":"YzpkZQ=="}}}`
	c.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "pull", Labels: map[string]string{"a": "b"}}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(auth)},
	})
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "warm"}}
	job.Spec.Image, job.Spec.PullSecrets, job.Spec.CompletionPolicy.Type = "reg.test/app:v1", []string{"pull"}, v1beta1.Always
	job.Spec.Parallelism = new(intstr.FromInt32(2))
	c.create(job)
	c.until(job, false, func() bool { return job.Status.Desired == 3 && job.Status.Active == 2 })
	copies, err := c.copies(t.Context())
	if want := []string{c.namespace + "/pull for " + c.namespace + `/warm {"auths":{"reg.test":{"auth":"YTpi"}}}`}; err != nil || !slices.Equal(copies, want) {
		t.Errorf("IP-20, IP-65 copies %q, want %q, %v", copies, want, err)
	}
	c.until(job, true, func() bool { return job.Status.CompletionTime != nil && len(job.Finalizers) == 0 })
	if s := &job.Status; s.Succeeded != 3 || s.Failed != 0 || s.Message != "job has completed" {
		t.Errorf("IP-11 %+v", s)
	}
	if copies, err := c.copies(t.Context()); err != nil || len(copies) > 0 {
		t.Errorf("IP-23 copies %q, %v", copies, err)
	}
	none := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "none"}, Spec: job.Spec}
	none.Spec.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{"missing"}}
	c.create(none)
	c.until(none, false, func() bool { return none.Status.CompletionTime != nil && len(none.Finalizers) == 0 })
	if copies, err := c.copies(t.Context()); err != nil || len(copies) > 0 {
		t.Errorf("IP-23 copies %q of a job that has ended at once, %v", copies, err)
	}
	list := &v1beta1.ImageListPullJob{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "list"}}
	list.Spec.Images, list.Spec.CompletionPolicy.Type = []string{"reg.test/broken:v1", "reg.test/app:v1"}, v1beta1.Always
	list.Spec.Parallelism = new(intstr.FromInt32(3))
	c.create(list)
	c.until(list, true, func() bool { return list.Status.CompletionTime != nil })
	if s := &list.Status; s.Desired != 2 || s.Succeeded != 1 || len(s.FailedImageStatuses) != 1 || !strings.Contains(s.FailedImageStatuses[0].Message, "manifest unknown") {
		t.Errorf("IP-43, IP-70 %+v", s)
	}
	if err := c.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		images := &v1beta1.NodeImageList{}
		if err := c.List(ctx, images); err != nil {
			return err
		}
		for i := range images.Items {
			for _, tag := range images.Items[i].Spec.Images["reg.test/app"].Tags {
				for _, owner := range tag.OwnerReferences {
					if owner.UID == job.UID {
						return fmt.Errorf("IP-37 a tag of the job is left on %s", images.Items[i].Name)
					}
				}
			}
		}
		return nil
	})
}

// TestPullsThroughKubelets runs a job without agents: each Node gets a Pod, no NodeImage is changed, no Secret is
// copied, and the Pods stay after the end until the job is deleted.
func TestPullsThroughKubelets(t *testing.T) {
	c := start(t)
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.namespace, Name: "warm.v1", Annotations: map[string]string{apps.AnnotationPullThrough: apps.PullThroughKubelet},
	}}
	job.Spec.Image, job.Spec.PullSecrets, job.Spec.CompletionPolicy.Type = "reg.test/app:v1", []string{"pull"}, v1beta1.Always
	job.Spec.Parallelism = new(intstr.FromInt32(2))
	c.create(job)
	c.until(job, false, func() bool { return job.Status.CompletionTime != nil })
	if s := &job.Status; s.Succeeded != 3 || s.Failed != 0 || len(job.Finalizers) > 0 {
		t.Errorf("%+v, finalizers %v", s, job.Finalizers)
	}
	if copies, err := c.copies(t.Context()); err != nil || len(copies) > 0 {
		t.Errorf("IP-65 copies %q, %v", copies, err)
	}
	images := &v1beta1.NodeImageList{}
	if err := c.List(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	for i := range images.Items {
		for _, tag := range images.Items[i].Spec.Images["reg.test/app"].Tags {
			if slices.ContainsFunc(tag.OwnerReferences, func(ref corev1.ObjectReference) bool { return ref.UID == job.UID }) {
				t.Errorf("a claim on %s: %+v", images.Items[i].Name, tag)
			}
		}
	}
	c.untilPods(job, 3)
	c.patch(job, `{"spec":{"image":"NOT VALID"}}`)
	c.untilPods(job, 0)
	endless := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "endless", Annotations: job.Annotations}}
	endless.Spec.Image, endless.Spec.PullSecrets, endless.Spec.CompletionPolicy.Type = "reg.test/app:v1", []string{"pull"}, v1beta1.Never
	endless.Spec.Parallelism = new(intstr.FromInt32(3))
	c.create(endless)
	c.untilPods(endless, 3)
	c.patch(endless, `{"spec":{"image":"NOT VALID"}}`)
	c.untilPods(endless, 0)
	c.patch(endless, `{"spec":{"image":"reg.test/app:v2"}}`)
	endless.Spec.Image = "reg.test/app:v2"
	c.untilPods(endless, 3)
	if err := c.Delete(t.Context(), endless); err != nil {
		t.Fatal(err)
	}
	c.untilPods(endless, 0)
}

// untilPods waits until n Pods have the image of a job, on different Nodes, with the pull secret of the job.
func (c *cluster) untilPods(job *v1beta1.ImagePullJob, n int) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.InNamespace(c.namespace), client.MatchingLabels{apps.LabelImagePullJobUID: string(job.UID)}); err != nil {
			return err
		}
		nodes := map[string]bool{}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if source := pod.Spec.Volumes[0].Image; source == nil || source.Reference != job.Spec.Image || pod.Spec.ImagePullSecrets[0].Name != "pull" {
				return fmt.Errorf("Pod %s: %+v", pod.Name, pod.Spec)
			}
			nodes[pod.Spec.NodeName] = true
		}
		if len(pods.Items) != n || len(nodes) != n {
			return fmt.Errorf("%d Pods on %d Nodes, want %d", len(pods.Items), len(nodes), n)
		}
		return nil
	})
}
