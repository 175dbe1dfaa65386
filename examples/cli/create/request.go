package create

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// request contains the flags of the command for restarts of containers.
type request struct {
	name, pod    string
	containers   []string
	unreadyGrace int64
	minStarted   int32
}

func newRequest(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	r := &request{}
	cmd := &cobra.Command{
		Use:     "ContainerRecreateRequest NAME --pod=POD [--containers=A,B]",
		Aliases: []string{"containerrecreaterequest", "crr"},
		Short:   "Restart containers of a Pod in place",
		Example: "  kubectl kruise create crr again --pod=web-x7k2p --containers=app",
	}
	m := newMaker(f, streams, cmd)
	cmd.Flags().StringVarP(&r.pod, "pod", "p", "", "The Pod whose containers are restarted.")
	cmd.Flags().StringSliceVar(&r.containers, "containers", nil, "The containers to restart; all containers by default.")
	cmd.Flags().Int64VarP(&r.unreadyGrace, "unreadyGracePeriodSeconds", "u", 3, "For how long the Pod is not ready before a container is stopped.")
	cmd.Flags().Int32VarP(&r.minStarted, "minStartedSeconds", "m", 3, "For how long a new container must run before the container counts as restarted.")
	if err := cmd.RegisterFlagCompletionFunc("pod", completion.ResourceNameCompletionFunc(f, "pod")); err != nil {
		panic(err) // the flag is defined above
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || r.pod == "" {
			return errors.New("exactly one NAME and --pod are required")
		}
		r.name = args[0]
		namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return err
		}
		clients, err := f.KubernetesClientSet()
		if err != nil {
			return err
		}
		pod, err := clients.CoreV1().Pods(namespace).Get(cmd.Context(), r.pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		content, err := r.object(pod)
		if err != nil {
			return err
		}
		return m.create(cmd, schema.GroupKind{Group: "apps.kruise.io", Kind: "ContainerRecreateRequest"}, content)
	}
	return cmd
}

// These are the limits of a request, with the same values as in OpenKruise's command line.
const (
	deadlineSeconds = int64(300)
	ttlSeconds      = int32(1800)
)

// object returns the ContainerRecreateRequest for a Pod. The fields are equal in both versions of the kind.
func (r *request) object(pod *corev1.Pod) (fields.Object, error) {
	deadline, ttl := deadlineSeconds, ttlSeconds
	crr := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: r.name, Namespace: pod.Namespace},
		Spec: v1beta1.ContainerRecreateRequestSpec{
			PodName: pod.Name, ActiveDeadlineSeconds: &deadline, TTLSecondsAfterFinished: &ttl,
			Strategy: &v1beta1.ContainerRecreateRequestStrategy{
				FailurePolicy:             v1beta1.ContainerRecreateRequestFailurePolicyFail,
				UnreadyGracePeriodSeconds: &r.unreadyGrace, MinStartedSeconds: r.minStarted,
			},
		},
	}
	wanted := slices.DeleteFunc(slices.Clone(r.containers), func(name string) bool { return strings.TrimSpace(name) == "" })
	for i := range wanted {
		wanted[i] = strings.TrimSpace(wanted[i])
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if len(wanted) > 0 && !slices.Contains(wanted, c.Name) {
			continue
		}
		entry := v1beta1.ContainerRecreateRequestContainer{Name: c.Name, Ports: c.Ports}
		if c.Lifecycle != nil {
			entry.PreStop = c.Lifecycle.PreStop
		}
		crr.Spec.Containers = append(crr.Spec.Containers, entry)
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(crr.Spec.Containers, func(c v1beta1.ContainerRecreateRequestContainer) bool { return c.Name == name }) {
			return nil, fmt.Errorf("--containers: Pod %s has no container %q", pod.Name, name)
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crr)
	delete(content, "status")
	return content, err
}
