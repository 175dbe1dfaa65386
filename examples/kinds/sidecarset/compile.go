package sidecarset

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// Compile returns the set of sidecars that a SidecarSet describes, or the reason why the SidecarSet is invalid.
// revision is the name of the revision that is recorded in Pods. pinned looks up the revision whose sidecars new Pods
// must get. A nil pinned ignores pinned revisions, which have no effect on running Pods.
func Compile(set *v1beta1.SidecarSet, revision string, pinned func(*pub.SidecarSetInjectRevision) *appsv1.ControllerRevision) (*sidecarcontrol.Set, error) {
	if problems := decode.Reasons(set.Spec.Undecodable); problems != nil {
		return nil, problems
	}
	spec, err := specOf(set, revision)
	if err != nil {
		return nil, err
	}
	if pin := set.Spec.InjectionStrategy.Revision; pin != nil && pinned != nil {
		if spec.Pin, err = pinOf(set, pinned(pin)); err != nil {
			return nil, err
		}
	}
	return sidecarcontrol.NewSet(spec)
}

func specOf(set *v1beta1.SidecarSet, revision string) (sidecarcontrol.Spec, error) {
	s := &set.Spec
	spec := sidecarcontrol.Spec{
		Name: set.Name, Selector: s.Selector, NamespaceSelector: s.NamespaceSelector,
		InitContainers: sidecars(s.InitContainers, pub.AfterAppContainer), Containers: sidecars(s.Containers, pub.BeforeAppContainer),
		Volumes: s.Volumes, ImagePullSecrets: s.ImagePullSecrets, Paused: s.InjectionStrategy.Paused,
		Hash: set.Annotations[apps.AnnotationSidecarSetHash], HashWithoutImages: set.Annotations[apps.AnnotationSidecarSetHashWithoutImage],
		Revision: revision, Version: set.ResourceVersion,
	}
	for _, patch := range s.PatchPodMetadata {
		spec.Annotations = append(spec.Annotations, sidecarcontrol.AnnotationPatch{
			Annotations: patch.Annotations, Policy: sidecarcontrol.PatchPolicy(patch.PatchPolicy),
		})
	}
	if set.Annotations[apps.AnnotationSidecarSetCanary] == "true" {
		spec.Replaces = set.Annotations[apps.AnnotationSidecarSetBase]
	}
	if spec.Hash != "" && spec.HashWithoutImages != "" {
		return spec, nil
	}
	var err error // the SidecarSet was stored while no admission checked objects
	spec.Hash, spec.HashWithoutImages, err = api.Hashes(s.Containers, s.InitContainers)
	return spec, err
}

// pinOf returns the pin of a SidecarSet: which new Pods get the sidecars of an older revision. If the revision does
// not exist, injection refuses these Pods.
func pinOf(set *v1beta1.SidecarSet, revision *appsv1.ControllerRevision) (*sidecarcontrol.Pin, error) {
	pin := &sidecarcontrol.Pin{Share: 1}
	update := &set.Spec.UpdateStrategy
	if set.Spec.InjectionStrategy.Revision.Policy == pub.InjectRevisionPartial && !update.Paused {
		pin.Selector, pin.Share = update.Selector, 0
		if p := update.Partition; p != nil && p.Type == intstr.String {
			const precision = 10_000
			n, err := partition.Resolve("spec.updateStrategy.partition", p, precision, partition.Up)
			if err != nil {
				return nil, err
			}
			pin.Share = float64(n) / precision
		}
	}
	if revision == nil {
		return pin, nil
	}
	old, err := restored(set, revision)
	if err != nil {
		return nil, err
	}
	spec, err := specOf(old, revision.Name)
	if err != nil {
		return nil, err
	}
	pin.Set, err = sidecarcontrol.NewSet(spec)
	return pin, err
}

func sidecars(list []pub.SidecarContainer, usual pub.PodInjectPolicy) []sidecarcontrol.Sidecar {
	out := make([]sidecarcontrol.Sidecar, len(list))
	for i := range list {
		c, s := &list[i], &out[i]
		place := c.PodInjectPolicy
		if place == "" {
			place = usual
		}
		s.Container, s.AfterApp = c.Container, place == pub.AfterAppContainer
		s.ShareMounts = c.ShareVolumePolicy.Type == pub.ShareVolumePolicyEnabled
		s.ShareDevices = c.ShareVolumeDevicePolicy != nil && c.ShareVolumeDevicePolicy.Type == pub.ShareVolumePolicyEnabled
		if c.UpgradeStrategy.UpgradeType == pub.SidecarHotUpgrade {
			s.Hot = &sidecarcontrol.Hot{EmptyImage: c.UpgradeStrategy.HotUpgradeEmptyImage}
		}
		for _, env := range c.TransferEnv {
			t := sidecarcontrol.TransferEnv{Container: env.SourceContainerName, Names: env.EnvNames}
			if env.EnvName != "" {
				t.Names = append([]string{env.EnvName}, env.EnvNames...)
			}
			if from := env.SourceContainerNameFrom; from != nil && from.FieldRef != nil {
				t.ContainerFrom = strings.TrimSpace(from.FieldRef.FieldPath)
			}
			s.TransferEnv = append(s.TransferEnv, t)
		}
		if p := c.ResourcesPolicy; p != nil {
			s.ResourcesPolicy = new(sizingOf(p))
		}
	}
	return out
}
