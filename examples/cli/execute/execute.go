// Package execute has "kubectl kruise exec": kubectl's exec, for workloads of OpenKruise too, and with the names of
// sidecars that are upgraded hot.
package execute

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/exec"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"k8s.io/kubectl/pkg/scheme"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// NewCommand returns kubectl's command with the flag --sidecar added.
func NewCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := exec.NewCmdExec(f, streams)
	var sidecar string
	cmd.Flags().StringVarP(&sidecar, "sidecar", "S", "", "The name of a sidecar that is upgraded hot: the command runs in the working one of its two containers.")
	kubectl := cmd.Run
	cmd.Run = func(cmd *cobra.Command, args []string) {
		if sidecar != "" && len(args) > 0 {
			pod, err := find(f, cmd, args[0])
			cmdutil.CheckErr(err)
			fallback, err := cmd.Flags().GetString("container")
			cmdutil.CheckErr(err)
			container := Working(pod, sidecar, fallback)
			fmt.Fprintf(streams.ErrOut, "Container %s of Pod %s\n", container, pod.Name)
			cmdutil.CheckErr(cmd.Flags().Set("container", container))
			args[0] = pod.Name // kubectl must use the Pod in which the container was looked up
		}
		kubectl(cmd, args)
	}
	return cmd
}

// find returns the Pod with a name, or the first suitable Pod of a workload.
func find(f cmdutil.Factory, cmd *cobra.Command, name string) (*corev1.Pod, error) {
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	timeout, err := cmdutil.GetPodRunningTimeoutFlag(cmd)
	if err != nil {
		return nil, err
	}
	object, err := f.NewBuilder().WithScheme(scheme.Scheme, scheme.Scheme.PrioritizedVersionsAllGroups()...).
		NamespaceParam(namespace).DefaultNamespace().ResourceNames("pods", name).Do().Object()
	if err != nil {
		return nil, err
	}
	return polymorphichelpers.AttachablePodForObjectFn(f, object, max(timeout, time.Second))
}

// Working returns the name of the container to use for a sidecar. If the sidecar has two containers for hot upgrades,
// Working returns the container that works at present. Otherwise Working returns the container with the name of the
// sidecar. If the Pod has no such container, Working returns the fallback or, without a fallback, the first
// container.
func Working(pod *corev1.Pod, sidecar, fallback string) string {
	working := map[string]string{}
	if text := pod.Annotations[apps.AnnotationSidecarSetWorking]; text != "" {
		if err := json.Unmarshal([]byte(text), &working); err == nil && working[sidecar] != "" {
			return working[sidecar]
		}
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == sidecar {
			return sidecar
		}
	}
	if fallback != "" || len(pod.Spec.Containers) == 0 {
		return fallback
	}
	return pod.Spec.Containers[0].Name
}
