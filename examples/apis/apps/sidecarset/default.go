// Package sidecarset answers "what does a SidecarSet say where a user has left a field out?"
package sidecarset

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// These are the defaults of OpenKruise 1.9.
const (
	DefaultRevisionHistoryLimit int32 = 10
	DefaultMaxUnavailable       int32 = 1
)

// Default sets the fields left out by the user, and writes the hashes. Default is idempotent. An error is returned if
// the sidecars cannot be encoded for the hashes.
func Default(obj *v1beta1.SidecarSet) error {
	spec := &obj.Spec
	defaults.IfNil(&spec.RevisionHistoryLimit, DefaultRevisionHistoryLimit)
	update := &spec.UpdateStrategy
	if update.Type == "" {
		update.Type = pub.SidecarSetRollingUpdate
	}
	defaults.IfNil(&update.MaxUnavailable, intstr.FromInt32(DefaultMaxUnavailable))
	defaults.IfNil(&update.Partition, intstr.FromInt32(0))
	if pin := spec.InjectionStrategy.Revision; pin != nil && pin.Policy == "" {
		pin.Policy = pub.InjectRevisionAlways
	}
	for i := range spec.InitContainers {
		container(&spec.InitContainers[i], pub.AfterAppContainer)
	}
	for i := range spec.Containers {
		container(&spec.Containers[i], pub.BeforeAppContainer)
	}
	for i := range spec.Volumes {
		defaults.Volume(&spec.Volumes[i])
	}
	for i := range spec.PatchPodMetadata {
		if patch := &spec.PatchPodMetadata[i]; patch.PatchPolicy == "" {
			patch.PatchPolicy = pub.SidecarSetRetain
		}
	}
	hash, withoutImages, err := Hashes(spec.Containers, spec.InitContainers)
	if err != nil {
		return err
	}
	annotations := maps.Clone(obj.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[apps.AnnotationSidecarSetHash], annotations[apps.AnnotationSidecarSetHashWithoutImage] = hash, withoutImages
	obj.Annotations = annotations
	return nil
}

func container(c *pub.SidecarContainer, place pub.PodInjectPolicy) {
	defaults.Sidecar(&c.Container)
	if c.PodInjectPolicy == "" {
		c.PodInjectPolicy = place
	}
	if c.UpgradeStrategy.UpgradeType == "" {
		c.UpgradeStrategy.UpgradeType = pub.SidecarColdUpgrade
	}
	if c.ShareVolumePolicy.Type == "" {
		c.ShareVolumePolicy.Type = pub.ShareVolumePolicyDisabled
	}
	for i := range c.TransferEnv {
		if from := c.TransferEnv[i].SourceContainerNameFrom; from != nil && from.FieldRef != nil && from.FieldRef.APIVersion == "" {
			from.FieldRef.APIVersion = "v1"
		}
	}
}
