package kubeletpull

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/workloadkit/workloadkit/reason"
)

// Support returns nil, or the reason why a Node has no image volumes: an ImageVolumesMissing. The gate ImageVolume is
// there since Kubernetes 1.31 and on since 1.35 (pkg/features); gateOn says that the gate is on in earlier versions.
// Container runtimes besides containerd and CRI-O are taken to be able.
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

// isBelow says whether a version is below another version, or is no version.
func isBelow(given, least string) bool {
	parsed, err := version.ParseGeneric(given)
	return err != nil || parsed.LessThan(version.MustParseGeneric(least))
}
