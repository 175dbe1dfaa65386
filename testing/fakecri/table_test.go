package fakecri_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/workloadkit/workloadkit/testing/fakecri/containerconfig"
)

// subject is a runtime with a Pod of a single container, named app.
type subject struct {
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	pod     *corev1.Pod
	image   string // the tag, in full
	missing string // a tag that the registry lacks
	// These IDs come from the first lists, and are used in later requests.
	container, sandbox, imageID, digest string
}

func newSubject(t *testing.T, conn *grpc.ClientConn, pod *corev1.Pod, missing string) *subject {
	t.Helper()
	s := &subject{
		runtime: runtimeapi.NewRuntimeServiceClient(conn), images: runtimeapi.NewImageServiceClient(conn),
		pod: pod, image: pod.Spec.Containers[0].Image, missing: missing,
	}
	list, err := s.runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: s.ours()})
	if err != nil || len(list.GetContainers()) != 1 {
		t.Fatalf("containers %v, error %v; want one", list.GetContainers(), err)
	}
	c := list.GetContainers()[0]
	s.container, s.sandbox, s.imageID = c.GetId(), c.GetPodSandboxId(), c.GetImageId()
	image, err := s.images.ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: s.imageID}})
	if err != nil || len(image.GetImage().GetRepoDigests()) == 0 {
		t.Fatalf("image %v, error %v; want a digest", image, err)
	}
	s.digest = image.GetImage().GetRepoDigests()[0]
	return s
}

// ours returns the filter that selects the containers of the subject's Pod.
func (s *subject) ours() *runtimeapi.ContainerFilter {
	return &runtimeapi.ContainerFilter{LabelSelector: map[string]string{containerconfig.PodUIDLabel: string(s.pod.UID)}}
}

// words replaces values that differ between runs by fixed names.
func (s *subject) words(text string) string {
	return strings.NewReplacer(s.container, "CONTAINER", s.sandbox, "SANDBOX", s.imageID, "IMAGEID", s.digest, "DIGEST",
		s.image, "TAG", string(s.pod.UID), "UID", s.pod.Status.PodIP, "PODIP").Replace(text)
}

// row is a call of CRI with the wanted response. Rows run in order.
type row struct {
	name string
	do   func(ctx context.Context, s *subject) (string, error)
	want string
}

// run sends the calls of all rows to a runtime, and compares the responses.
func (s *subject) run(t *testing.T, rows []row) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, err := r.do(ctx, s)
			if err != nil {
				got = "error " + status.Code(err).String()
			}
			if diff := cmp.Diff(r.want, s.words(got)); diff != "" {
				t.Errorf("answer (-want +got):\n%s\nerror: %v", diff, err)
			}
		})
	}
}

// list calls ListContainers with the Pod's filter, changed by the row.
func list(change func(*subject, *runtimeapi.ContainerFilter)) func(context.Context, *subject) (string, error) {
	return func(ctx context.Context, s *subject) (string, error) {
		filter := s.ours()
		change(s, filter)
		response, err := s.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
		var out []string
		for _, c := range response.GetContainers() {
			out = append(out, fmt.Sprint(c.GetId(), " ", c.GetMetadata().GetName(), " ", c.GetMetadata().GetAttempt(), " ", c.GetState(), " in ", c.GetPodSandboxId(),
				" of ", c.GetImage().GetImage(), " asked ", c.GetImage().GetUserSpecifiedImage(), " ref ", c.GetImageRef(), " id ", c.GetImageId(), " created ", c.GetCreatedAt() > 0))
		}
		return strings.Join(out, "\n"), err
	}
}

func inState(state runtimeapi.ContainerState) func(*subject, *runtimeapi.ContainerFilter) {
	return func(_ *subject, f *runtimeapi.ContainerFilter) {
		f.State = &runtimeapi.ContainerStateValue{State: state}
	}
}

// written renders labels or annotations.
func written(m map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+m[key])
	}
	return strings.Join(out, "\n")
}

func containerStatus(id func(*subject) string, show func(*runtimeapi.ContainerStatus) string) func(context.Context, *subject) (string, error) {
	return func(ctx context.Context, s *subject) (string, error) {
		response, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id(s)})
		return show(response.GetStatus()), err
	}
}

func whole(s *subject) string     { return s.container }
func short(s *subject) string     { return s.container[:12] }
func unknown(*subject) string     { return strings.Repeat("f", 64) }
func empty(*subject) string       { return "" }
func sandboxOf(s *subject) string { return s.sandbox }

func showStatus(c *runtimeapi.ContainerStatus) string {
	return fmt.Sprint(c.GetId(), " ", c.GetMetadata().GetName(), " ", c.GetState(), " of ", c.GetImage().GetImage(), " ref ", c.GetImageRef(), " id ", c.GetImageId(),
		" code ", c.GetExitCode(), " reason ", c.GetReason(), " started ", c.GetStartedAt() > 0, " finished ", c.GetFinishedAt() > 0)
}

// verbose returns some of the verbose information about the container as text.
func verbose(ctx context.Context, s *subject) (string, error) {
	response, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: s.container, Verbose: true})
	if err != nil {
		return "", err
	}
	var info struct {
		SandboxID string
		Pid       int
		Config    struct {
			Metadata struct{ Name string }
			Image    struct{ Image string }
			Envs     []struct{ Key, Value string }
			Labels   map[string]string
		}
		RuntimeSpec struct {
			Process struct{ Env []string }
		}
	}
	if err := json.Unmarshal([]byte(response.GetInfo()["info"]), &info); err != nil {
		return "", err
	}
	out := []string{fmt.Sprint(info.SandboxID, " ", info.Config.Metadata.Name, " of ", info.Config.Image.Image, " runs ", info.Pid > 0, " labels ", len(info.Config.Labels))}
	slices.SortFunc(info.Config.Envs, func(a, b struct{ Key, Value string }) int { return strings.Compare(a.Key, b.Key) })
	slices.Sort(info.RuntimeSpec.Process.Env)
	for _, e := range info.Config.Envs {
		if !strings.Contains(e.Key, "_") { // leaves out the variables of services
			out = append(out, "config "+e.Key+"="+e.Value)
		}
	}
	for _, e := range info.RuntimeSpec.Process.Env {
		if name, _, _ := strings.Cut(e, "="); !strings.Contains(name, "_") && name != "VERSION" {
			out = append(out, "process "+e)
		}
	}
	return strings.Join(out, "\n"), nil
}

func sandboxes(change func(*subject, *runtimeapi.PodSandboxFilter)) func(context.Context, *subject) (string, error) {
	return func(ctx context.Context, s *subject) (string, error) {
		filter := &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{containerconfig.PodUIDLabel: string(s.pod.UID)}}
		change(s, filter)
		response, err := s.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: filter})
		var out []string
		for _, p := range response.GetItems() {
			m := p.GetMetadata()
			out = append(out, fmt.Sprint(p.GetId(), " ", p.GetState(), " ", m.GetName(), " ", m.GetUid(), " ", m.GetAttempt(), " created ", p.GetCreatedAt() > 0, "\n", written(p.GetLabels())))
		}
		return strings.Join(out, "\n"), err
	}
}

func sandboxStatus(id func(*subject) string) func(context.Context, *subject) (string, error) {
	return func(ctx context.Context, s *subject) (string, error) {
		response, err := s.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id(s)})
		p := response.GetStatus()
		return fmt.Sprint(p.GetId(), " ", p.GetState(), " ", p.GetMetadata().GetName(), " at ", p.GetNetwork().GetIp()), err
	}
}

func exec(id func(*subject) string, timeout int64, argv ...string) func(context.Context, *subject) (string, error) {
	return func(ctx context.Context, s *subject) (string, error) {
		response, err := s.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id(s), Cmd: argv, Timeout: timeout})
		return fmt.Sprintf("code %d out %q err %q", response.GetExitCode(), response.GetStdout(), response.GetStderr()), err
	}
}

func stop(id func(*subject) string, grace int64) func(context.Context, *subject) (string, error) {
	return func(ctx context.Context, s *subject) (string, error) {
		_, err := s.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id(s), Timeout: grace})
		return "stopped", err
	}
}

func imageStatus(name func(*subject) string) func(context.Context, *subject) (string, error) {
	return func(ctx context.Context, s *subject) (string, error) {
		response, err := s.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name(s)}})
		if response.GetImage() == nil {
			return "none", err
		}
		return showImage(response.GetImage()), err
	}
}

func showImage(i *runtimeapi.Image) string {
	return fmt.Sprint(i.GetId(), " ", i.GetRepoTags(), " ", i.GetRepoDigests(), " sized ", i.GetSize() > 0)
}

func pull(name func(*subject) string) func(context.Context, *subject) (string, error) {
	return func(ctx context.Context, s *subject) (string, error) {
		response, err := s.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name(s)}})
		return response.GetImageRef(), err
	}
}

// table returns the calls and the wanted responses, which are the same for any runtime. The last rows stop the
// container.
func table(s *subject) []row {
	const running = "CONTAINER app 0 CONTAINER_RUNNING in SANDBOX of IMAGEID asked TAG ref IMAGEID id IMAGEID created true"
	const image = "IMAGEID [TAG] [DIGEST] sized true"
	labels := "io.kubernetes.pod.name=" + s.pod.Name + "\nio.kubernetes.pod.namespace=" + s.pod.Namespace + "\nio.kubernetes.pod.uid=UID"
	return []row{
		{"version", func(ctx context.Context, s *subject) (string, error) {
			v, err := s.runtime.Version(ctx, &runtimeapi.VersionRequest{})
			return v.GetVersion() + " " + v.GetRuntimeName() + " " + v.GetRuntimeApiVersion(), err
		}, "0.1.0 containerd v1"},
		{"the runtime and the network are ready", func(ctx context.Context, s *subject) (string, error) {
			r, err := s.runtime.Status(ctx, &runtimeapi.StatusRequest{})
			var out []string
			for _, c := range r.GetStatus().GetConditions()[:2] {
				out = append(out, fmt.Sprint(c.GetType(), "=", c.GetStatus()))
			}
			return strings.Join(out, " "), err
		}, "RuntimeReady=true NetworkReady=true"},

		{"containers by label", list(func(*subject, *runtimeapi.ContainerFilter) {}), running},
		{"containers by ID", list(func(s *subject, f *runtimeapi.ContainerFilter) { f.Id = s.container }), running},
		{"containers by a short ID", list(func(s *subject, f *runtimeapi.ContainerFilter) { f.Id = short(s) }), running},
		{"containers by an unknown ID", list(func(s *subject, f *runtimeapi.ContainerFilter) { f.Id = unknown(s) }), ""},
		{"containers by sandbox", list(func(s *subject, f *runtimeapi.ContainerFilter) { f.PodSandboxId = s.sandbox }), running},
		{"containers by an unknown sandbox", list(func(s *subject, f *runtimeapi.ContainerFilter) { f.PodSandboxId = unknown(s) }), ""},
		{"running containers", list(inState(runtimeapi.ContainerState_CONTAINER_RUNNING)), running},
		{"ended containers", list(inState(runtimeapi.ContainerState_CONTAINER_EXITED)), ""},
		{"containers by two labels", list(func(_ *subject, f *runtimeapi.ContainerFilter) {
			f.LabelSelector[containerconfig.ContainerNameLabel] = "app"
		}), running},
		{"containers by a wrong value", list(func(_ *subject, f *runtimeapi.ContainerFilter) {
			f.LabelSelector[containerconfig.ContainerNameLabel] = "log"
		}), ""},
		{"containers by a label of the Pod", list(func(_ *subject, f *runtimeapi.ContainerFilter) { f.LabelSelector["tier"] = "web" }), ""},

		{"status", containerStatus(whole, showStatus), "CONTAINER app CONTAINER_RUNNING of TAG ref DIGEST id IMAGEID code 0 reason  started true finished false"},
		{"status by a short ID", containerStatus(short, (*runtimeapi.ContainerStatus).GetId), "CONTAINER"},
		{"status of an unknown container", containerStatus(unknown, showStatus), "error NotFound"},
		{"status without an ID", containerStatus(empty, showStatus), "error Unknown"},
		{"labels of a container", containerStatus(whole, func(c *runtimeapi.ContainerStatus) string { return written(c.GetLabels()) }), "io.kubernetes.container.name=app\n" + labels},
		{"annotations of a container", containerStatus(whole, func(c *runtimeapi.ContainerStatus) string { return written(c.GetAnnotations()) }), strings.Join([]string{
			fmt.Sprintf("io.kubernetes.container.hash=%x", containerconfig.Hash(&s.pod.Spec.Containers[0])),
			`io.kubernetes.container.ports=[{"name":"web","containerPort":8080,"protocol":"TCP"}]`,
			`io.kubernetes.container.preStopHandler={"sleep":{"seconds":1}}`,
			"io.kubernetes.container.restartCount=0",
			"io.kubernetes.container.terminationMessagePath=/dev/termination-log",
			"io.kubernetes.container.terminationMessagePolicy=File",
			"io.kubernetes.pod.terminationGracePeriod=5",
		}, "\n")},
		{"the verbose information", verbose, strings.Join([]string{
			"SANDBOX app of IMAGEID runs true labels 4", "config COLOR=blue", "config NAME=" + s.pod.Name + "-p", "config PLAIN=p",
			"process COLOR=blue", "process HOSTNAME=" + s.pod.Name, "process NAME=" + s.pod.Name + "-p",
			"process PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "process PLAIN=p",
		}, "\n")},

		{"sandboxes by label", sandboxes(func(*subject, *runtimeapi.PodSandboxFilter) {}), "SANDBOX SANDBOX_READY " + s.pod.Name + " UID 0 created true\n" + labels + "\ntier=web"},
		{"sandboxes by a short ID and a label of the Pod", sandboxes(func(s *subject, f *runtimeapi.PodSandboxFilter) {
			f.Id, f.LabelSelector["tier"] = s.sandbox[:12], "web"
		}), "SANDBOX SANDBOX_READY " + s.pod.Name + " UID 0 created true\n" + labels + "\ntier=web"},
		{"ended sandboxes", sandboxes(func(_ *subject, f *runtimeapi.PodSandboxFilter) {
			f.State = &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY}
		}), ""},
		{"status of a sandbox", sandboxStatus(sandboxOf), "SANDBOX SANDBOX_READY " + s.pod.Name + " at PODIP"},
		{"status of an unknown sandbox", sandboxStatus(unknown), "error NotFound"},

		{"exec of a failing program", exec(whole, 10, "/app"), `code 1 out "" err "app: listen tcp :8080: bind: address already in use\n"`},
		{"exec of an unknown program", exec(whole, 10, "/missing"), "error Unknown"},
		{"exec beyond the timeout", exec(whole, 1, "/app", "pause"), "error DeadlineExceeded"},
		{"exec in an unknown container", exec(unknown, 1, "/app"), "error NotFound"},

		{"image by tag", imageStatus(func(s *subject) string { return s.image }), image},
		{"image by digest", imageStatus(func(s *subject) string { return s.digest }), image},
		{"image by ID", imageStatus(func(s *subject) string { return s.imageID }), image},
		{"an unknown image", imageStatus(func(s *subject) string { return s.missing }), "none"},
		{"the list of images", func(ctx context.Context, s *subject) (string, error) {
			response, err := s.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
			i := slices.IndexFunc(response.GetImages(), func(i *runtimeapi.Image) bool { return i.GetId() == s.imageID })
			if i < 0 {
				return "none", err
			}
			return showImage(response.GetImages()[i]), err
		}, image},
		{"pull again", pull(func(s *subject) string { return s.image }), "IMAGEID"},
		{"pull by digest", pull(func(s *subject) string { return s.digest }), "IMAGEID"},
		{"pull of a missing image", pull(func(s *subject) string { return s.missing }), "error NotFound"},
		{"removal of an unknown image", func(ctx context.Context, s *subject) (string, error) {
			_, err := s.images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: s.missing}})
			return "removed", err
		}, "removed"},
		{"space for images", func(ctx context.Context, s *subject) (string, error) {
			r, err := s.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
			fs := r.GetImageFilesystems()[0]
			return fmt.Sprint(fs.GetFsId().GetMountpoint() != "", " ", fs.GetTimestamp() > 0, " ", fs.GetUsedBytes() != nil, " ", fs.GetInodesUsed() != nil), err
		}, "true true true true"},

		{"stop of an unknown container", stop(unknown, 1), "stopped"},
		{"stop without an ID", stop(empty, 1), "error Unknown"},
		{"stop", stop(whole, 5), "stopped"},
		{"status of a stopped container", containerStatus(whole, showStatus), "CONTAINER app CONTAINER_EXITED of TAG ref DIGEST id IMAGEID code 0 reason Completed started true finished true"},
		{"ended containers after the stop", list(inState(runtimeapi.ContainerState_CONTAINER_EXITED)), strings.Replace(running, "RUNNING", "EXITED", 1)},
		{"stop again", stop(whole, 5), "stopped"},
		{"exec in a stopped container", exec(whole, 1, "/app"), "error Unknown"},
	}
}

// newPod returns the Pod of a subject, as a user would create the Pod.
func newPod(image string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = "fake-1", "default"
	pod.Labels, pod.Annotations = map[string]string{"tier": "web"}, map[string]string{"color": "blue"}
	seconds := int64(5)
	pod.Spec.TerminationGracePeriodSeconds = &seconds
	pod.Spec.Containers = []corev1.Container{{
		Name: "app", Image: image,
		Env: []corev1.EnvVar{
			{Name: "PLAIN", Value: "p"},
			{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['color']"}}},
			{Name: "NAME", Value: "fake-1-$(PLAIN)"},
		},
		Ports:     []corev1.ContainerPort{{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}},
	}}
	return pod
}
