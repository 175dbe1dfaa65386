package kruise

import (
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// SidecarControl returns a Control that injects and upgrades sidecars, set up with the labels and annotations of
// OpenKruise.
func SidecarControl(gates map[apps.Gate]bool) (*sidecarcontrol.Control, error) {
	return sidecarcontrol.New(sidecarcontrol.Config{
		Keys: sidecarcontrol.Keys{
			HashAnnotation: apps.AnnotationSidecarSetHash, HashWithoutImagesAnnotation: apps.AnnotationSidecarSetHashWithoutImage,
			InjectedAnnotation: apps.AnnotationSidecarSetInjected, StateAnnotation: apps.AnnotationSidecarSetInPlaceState,
			RuntimeMetaAnnotation: apps.AnnotationRuntimeContainersMeta, InjectedEnv: apps.EnvSidecarInjected, Condition: apps.ConditionSidecarSetUpgradable,
			Hot: sidecarcontrol.HotKeys{
				WorkingAnnotation: apps.AnnotationSidecarSetWorking, VersionPrefix: apps.AnnotationSidecarSetVersionPrefix,
				VersionAltPrefix: apps.AnnotationSidecarSetVersionAltPrefix, VersionEnv: apps.EnvSidecarSetVersion, VersionAltEnv: apps.EnvSidecarSetVersionAlt,
			},
		},
		SortContainers: gates[apps.GateSortSidecarContainerByName],
	})
}
