package kubeletpull

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/workloadkit/workloadkit/reason"
)

// Support returns nil if a Node supports image volumes, and otherwise a reason with the code ImageVolumesMissing. The
// feature gate ImageVolume exists since Kubernetes 1.31 and is on by default since 1.35 (pkg/features); gateOn means
// that the gate is on in earlier versions. Support assumes that container runtimes other than containerd and CRI-O
// support image volumes.
func Support(node *corev1.Node, gateOn bool) error {
	info := &node.Status.NodeInfo
	least := "1.35"
	if gateOn {
		least = "1.31"
	}
	switch runtime, release, _ := strings.Cut(info.ContainerRuntimeVersion, "://"); {
	case info.OperatingSystem == "windows":
		return missing("operatingSystem", info.OperatingSystem, "the Node runs Windows")
	case isBelow(info.KubeletVersion, least):
		return missing("kubeletVersion", info.KubeletVersion, "kubelet "+least+" is needed")
	case runtime == "containerd" && isBelow(release, "2.1"):
		return missing("containerRuntimeVersion", info.ContainerRuntimeVersion, "containerd 2.1 is needed")
	case runtime == "cri-o" && isBelow(release, "1.31"):
		return missing("containerRuntimeVersion", info.ContainerRuntimeVersion, "CRI-O 1.31 is needed")
	}
	return nil
}

func missing(field, value, detail string) error {
	return reason.Reason{Code: ImageVolumesMissing, Path: "status.nodeInfo." + field, New: value, Detail: detail, Remedy: "upgrade the Node, or pull with an agent"}
}

// isBelow reports whether a version is below another version, or is not a valid version.
func isBelow(given, least string) bool {
	parsed, err := version.ParseGeneric(given)
	return err != nil || parsed.LessThan(version.MustParseGeneric(least))
}
