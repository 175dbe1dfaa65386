package sidecarset

import (
	"math"
	"slices"
	"strconv"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol/sizing"
)

// sidecars calls visit for each container, with the name of the container's list.
func sidecars(spec *v1beta1.SidecarSetSpec, visit func(list string, i int, c *pub.SidecarContainer)) {
	for i := range spec.InitContainers {
		visit("initContainers", i, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		visit("containers", i, &spec.Containers[i])
	}
}

// injectedNames returns the names taken by a sidecar in a Pod. A hot sidecar also takes its own name, because
// annotations use the name.
func injectedNames(c *pub.SidecarContainer) []string {
	if c.UpgradeStrategy.UpgradeType == pub.SidecarHotUpgrade {
		return []string{c.Name, c.Name + "-1", c.Name + "-2"}
	}
	return []string{c.Name}
}

func validateContainers(spec *v1beta1.SidecarSetSpec, path *field.Path, at indexing) field.ErrorList {
	if len(spec.InitContainers)+len(spec.Containers) == 0 {
		return field.ErrorList{field.Required(path.Child("containers"), "needs at least one container, here or in initContainers")}
	}
	var errs field.ErrorList
	owner := map[string]string{} // of a name
	sidecars(spec, func(list string, i int, c *pub.SidecarContainer) {
		where := at(path.Child(list), i, c.Name)
		for _, name := range injectedNames(c) {
			if other, taken := owner[name]; taken {
				errs = append(errs, field.Invalid(where.Child("name"), c.Name, "takes the name "+name+" in Pods, as "+other+" does"))
				break
			}
			owner[name] = list + "[" + c.Name + "]"
		}
		errs = append(errs, validateSidecar(c, list == "initContainers", where)...)
	})
	return errs
}

func validateSidecar(c *pub.SidecarContainer, init bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if places := []pub.PodInjectPolicy{pub.BeforeAppContainer, pub.AfterAppContainer}; !slices.Contains(places, c.PodInjectPolicy) {
		errs = append(errs, field.NotSupported(path.Child("podInjectPolicy"), c.PodInjectPolicy, places))
	}
	shares := []pub.ShareVolumePolicyType{pub.ShareVolumePolicyEnabled, pub.ShareVolumePolicyDisabled}
	if kind := c.ShareVolumePolicy.Type; !slices.Contains(shares, kind) {
		errs = append(errs, field.NotSupported(path.Child("shareVolumePolicy", "type"), kind, shares))
	}
	if devices := c.ShareVolumeDevicePolicy; devices != nil && devices.Type != "" && !slices.Contains(shares, devices.Type) {
		errs = append(errs, field.NotSupported(path.Child("shareVolumeDevicePolicy", "type"), devices.Type, shares))
	}
	if c.Image != strings.TrimSpace(c.Image) { // the API server accepts such an image in a template, but in no Pod
		errs = append(errs, field.Invalid(path.Child("image"), c.Image, "must not begin or end with space"))
	}
	if !init {
		errs = append(errs, validateLaunchOrder(c, path.Child("env"))...)
	}
	errs = append(errs, validateUpgrade(c, init, path)...)
	for i := range c.TransferEnv {
		errs = append(errs, validateSource(c.TransferEnv[i].SourceContainerNameFrom, path.Child("transferEnv").Index(i).Child("sourceContainerNameFrom"))...)
	}
	return append(errs, validateResources(c, init, path)...)
}

// validateLaunchOrder: values refused by the admission of Pods would make every matching Pod fail.
func validateLaunchOrder(c *pub.SidecarContainer, path *field.Path) (errs field.ErrorList) {
	for i := range c.Env {
		env, at := &c.Env[i], path.Index(i)
		switch env.Name {
		case apps.EnvContainerPriority:
			if n, err := strconv.ParseInt(env.Value, 10, 64); err != nil || env.ValueFrom != nil || n < -math.MaxInt32 || n > math.MaxInt32 {
				errs = append(errs, field.Invalid(at.Child("value"), env.Value, "must be a number from -2147483647 to 2147483647, written out"))
			}
		case apps.EnvContainerBarrier:
			errs = append(errs, field.Forbidden(at.Child("name"), "is written by admission of Pods"))
		}
	}
	return errs
}

func validateUpgrade(c *pub.SidecarContainer, init bool, path *field.Path) field.ErrorList {
	at, upgrade := path.Child("upgradeStrategy"), c.UpgradeStrategy
	kinds := []pub.SidecarUpgradeType{pub.SidecarColdUpgrade, pub.SidecarHotUpgrade}
	switch {
	case !slices.Contains(kinds, upgrade.UpgradeType):
		return field.ErrorList{field.NotSupported(at.Child("upgradeType"), upgrade.UpgradeType, kinds)}
	case upgrade.UpgradeType == pub.SidecarColdUpgrade:
		return nil
	case init:
		return field.ErrorList{field.Invalid(at.Child("upgradeType"), upgrade.UpgradeType, "is for containers; use ColdUpgrade for init containers")}
	}
	var errs field.ErrorList
	switch image := at.Child("hotUpgradeEmptyImage"); upgrade.HotUpgradeEmptyImage {
	case "":
		errs = append(errs, field.Required(image, "HotUpgrade needs an image for the container that is idle"))
	case c.Image:
		errs = append(errs, field.Invalid(image, c.Image, "must not be the image of the container"))
	default:
		if upgrade.HotUpgradeEmptyImage != strings.TrimSpace(upgrade.HotUpgradeEmptyImage) {
			errs = append(errs, field.Invalid(image, upgrade.HotUpgradeEmptyImage, "must not begin or end with space"))
		}
	}
	for i, port := range c.Ports {
		if port.HostPort != 0 {
			errs = append(errs, field.Invalid(path.Child("ports").Index(i).Child("hostPort"), port.HostPort, "HotUpgrade runs two of the container, and only one of them could have it"))
		}
	}
	if longest := utilvalidation.DNS1123LabelMaxLength - len("-1"); len(c.Name) > longest {
		errs = append(errs, field.TooLong(path.Child("name"), c.Name, longest))
	}
	return errs
}

func validateResources(c *pub.SidecarContainer, init bool, path *field.Path) field.ErrorList {
	policy, at := c.ResourcesPolicy, path.Child("resourcesPolicy")
	if policy == nil {
		return nil
	}
	var errs field.ErrorList
	if init && !podstate.IsNativeSidecar(&c.Container) {
		errs = append(errs, field.Forbidden(at, "an init container needs restartPolicy Always for it"))
	}
	if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
		errs = append(errs, field.Forbidden(at, "excludes resources.limits and resources.requests"))
	}
	if policy.ResourcesExpr.Limits == nil && policy.ResourcesExpr.Requests == nil {
		errs = append(errs, field.Required(at.Child("resourcesExpr"), "needs limits or requests"))
	}
	_, err := sizing.Compile(Sizing(policy))
	for _, why := range reason.From(err) {
		errs = append(errs, field.Invalid(at.Child(why.Path), why.New, why.Detail))
	}
	return errs
}

// Sizing converts a policy of the API for package sizing.
func Sizing(policy *pub.SidecarResourcesPolicy) sizing.Policy {
	out := sizing.Policy{Mode: sizing.Mode(policy.TargetContainersMode), Containers: policy.TargetContainersNameRegex}
	if limits := policy.ResourcesExpr.Limits; limits != nil {
		out.Limits = sizing.Expressions{CPU: limits.CPU, Memory: limits.Memory}
	}
	if requests := policy.ResourcesExpr.Requests; requests != nil {
		out.Requests = sizing.Expressions{CPU: requests.CPU, Memory: requests.Memory}
	}
	return out
}
