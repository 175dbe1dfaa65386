package sidecarset

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol/sizing"
)

// eachSidecar calls visit for each container, with the name of the container's list.
func eachSidecar(spec *v1beta1.SidecarSetSpec, visit func(list string, i int, c *pub.SidecarContainer)) {
	for i := range spec.InitContainers {
		visit("initContainers", i, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		visit("containers", i, &spec.Containers[i])
	}
}

// injectedNames returns the names that no other container of a Pod may have if a sidecar is injected: the names of
// the sidecar's containers and, for a sidecar with hot upgrades, also the sidecar's own name, because annotations use
// the name.
func injectedNames(c *pub.SidecarContainer) []string {
	if c.UpgradeStrategy.UpgradeType == pub.SidecarHotUpgrade {
		return []string{c.Name, c.Name + "-1", c.Name + "-2"}
	}
	return []string{c.Name}
}

func readContainers(read *judge.Reading, spec *v1beta1.SidecarSetSpec, at indexing) {
	path := field.NewPath("spec")
	if len(spec.InitContainers)+len(spec.Containers) == 0 {
		read.Warn(field.Required(path.Child("containers"), "needs at least one container, here or in initContainers"))
	}
	owner := map[string]string{} // path of the container with the name
	eachSidecar(spec, func(list string, i int, c *pub.SidecarContainer) {
		where := at(path.Child(list), i, c.Name)
		for _, name := range injectedNames(c) {
			if other, taken := owner[name]; taken {
				read.Refuse(field.Invalid(where.Child("name"), c.Name, "takes the name "+name+" in Pods, as "+other+" does"))
				break
			}
			owner[name] = list + "[" + c.Name + "]"
		}
		readSidecar(read, c, list == "initContainers", where)
	})
}

func readSidecar(read *judge.Reading, c *pub.SidecarContainer, init bool, path *field.Path) {
	oneOf(read, path.Child("podInjectPolicy"), c.PodInjectPolicy, pub.BeforeAppContainer, pub.AfterAppContainer)
	oneOf(read, path.Child("shareVolumePolicy", "type"), c.ShareVolumePolicy.Type, pub.ShareVolumePolicyEnabled,
		pub.ShareVolumePolicyDisabled)
	if devices := c.ShareVolumeDevicePolicy; devices != nil && devices.Type != "" {
		oneOf(read, path.Child("shareVolumeDevicePolicy", "type"), devices.Type, pub.ShareVolumePolicyEnabled,
			pub.ShareVolumePolicyDisabled)
	}
	// The API server accepts an image with surrounding space in a Pod template, but not in a Pod.
	trimmed(read, path.Child("image"), c.Image)
	if !init {
		readLaunchOrder(read, c, path.Child("env"))
	}
	readUpgrade(read, c, init, path)
	for i := range c.TransferEnv {
		if from := c.TransferEnv[i].SourceContainerNameFrom; from != nil && from.FieldRef != nil {
			readFieldRef(read, from.FieldRef, path.Child("transferEnv").Index(i).Child("sourceContainerNameFrom", "fieldRef"))
		}
	}
	if c.ResourcesPolicy != nil {
		readResources(read, c, init, path.Child("resourcesPolicy"))
	}
}

// oneOf warns of an unknown value, in place of which the default is used.
func oneOf[T ~string](read *judge.Reading, path *field.Path, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		read.Warn(field.NotSupported(path, value, allowed))
	}
}

func trimmed(read *judge.Reading, path *field.Path, image string) {
	if image != strings.TrimSpace(image) {
		read.Refuse(field.Invalid(path, image, "must not begin or end with space"))
	}
}

// readLaunchOrder reports values for which the admission of Pods would refuse every matching Pod.
func readLaunchOrder(read *judge.Reading, c *pub.SidecarContainer, path *field.Path) {
	for i := range c.Env {
		env, at := &c.Env[i], path.Index(i)
		switch env.Name {
		case apps.EnvContainerPriority:
			n, err := strconv.ParseInt(env.Value, 10, 64)
			if err != nil || env.ValueFrom != nil || n < -math.MaxInt32 || n > math.MaxInt32 {
				read.Warn(field.Invalid(at.Child("value"), env.Value,
					"must be a number from -2147483647 to 2147483647, written out"))
			}
		case apps.EnvContainerBarrier:
			read.Warn(field.Forbidden(at.Child("name"), "is written by admission of Pods"))
		}
	}
}

func readUpgrade(read *judge.Reading, c *pub.SidecarContainer, init bool, path *field.Path) {
	at, kind, empty := path.Child("upgradeStrategy"), c.UpgradeStrategy.UpgradeType, c.UpgradeStrategy.HotUpgradeEmptyImage
	oneOf(read, at.Child("upgradeType"), kind, pub.SidecarColdUpgrade, pub.SidecarHotUpgrade)
	if kind != pub.SidecarHotUpgrade {
		return
	}
	if init {
		read.Refuse(field.Invalid(at.Child("upgradeType"), kind, "is for containers; use ColdUpgrade for init containers"))
		return
	}
	switch image := at.Child("hotUpgradeEmptyImage"); empty {
	case "":
		read.Refuse(field.Required(image, "HotUpgrade needs an image for the container that is idle"))
	case c.Image:
		read.Refuse(field.Invalid(image, c.Image, "must not be the image of the container"))
	default:
		trimmed(read, image, empty)
	}
	for i, port := range c.Ports {
		if port.HostPort != 0 {
			read.Warn(field.Invalid(path.Child("ports").Index(i).Child("hostPort"), port.HostPort,
				"HotUpgrade runs two of the container, and only one of them could have it"))
		}
	}
	if longest := utilvalidation.DNS1123LabelMaxLength - len("-1"); len(c.Name) > longest {
		read.Warn(field.TooLong(path.Child("name"), c.Name, longest))
	}
}

// sourceField matches the valid field paths from which a container's name can be read.
const sourceField = `^metadata\.(labels|annotations)\['([^']+)'\]$`

func readFieldRef(read *judge.Reading, ref *corev1.ObjectFieldSelector, path *field.Path) {
	oneOf(read, path.Child("apiVersion"), ref.APIVersion, "v1")
	at, source := path.Child("fieldPath"), regexp.MustCompile(sourceField)
	found, text := source.FindStringSubmatch(ref.FieldPath), strings.TrimSpace(ref.FieldPath)
	if found == nil {
		err := field.Invalid(at, ref.FieldPath, "must be metadata.labels['key'] or metadata.annotations['key']")
		if text != "" && !source.MatchString(text) {
			read.Refuse(err)
		} else { // no source is given, or the source has surrounding space
			read.Warn(err)
		}
		return
	}
	for _, msg := range utilvalidation.IsQualifiedName(found[2]) {
		read.Warn(field.Invalid(at, ref.FieldPath, msg))
	}
}

func readResources(read *judge.Reading, c *pub.SidecarContainer, init bool, path *field.Path) {
	policy := c.ResourcesPolicy
	if init && !podstate.IsNativeSidecar(&c.Container) {
		read.Refuse(field.Forbidden(path, "an init container needs restartPolicy Always for it"))
	}
	if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
		read.Warn(field.Forbidden(path, "excludes resources.limits and resources.requests"))
	}
	if policy.ResourcesExpr.Limits == nil && policy.ResourcesExpr.Requests == nil {
		read.Warn(field.Required(path.Child("resourcesExpr"), "needs limits or requests"))
	}
	_, err := sizing.Compile(sizingOf(policy))
	for _, why := range reason.From(err) {
		read.Refuse(field.Invalid(path.Child(why.Path), judge.Written(why.New), why.Detail))
	}
}

// sizingOf converts a resources policy of the API to a policy of package sizing.
func sizingOf(policy *pub.SidecarResourcesPolicy) sizing.Policy {
	out := sizing.Policy{Mode: sizing.Mode(policy.TargetContainersMode), Containers: policy.TargetContainersNameRegex}
	if limits := policy.ResourcesExpr.Limits; limits != nil {
		out.Limits = sizing.Expressions{CPU: limits.CPU, Memory: limits.Memory}
	}
	if requests := policy.ResourcesExpr.Requests; requests != nil {
		out.Requests = sizing.Expressions{CPU: requests.CPU, Memory: requests.Memory}
	}
	return out
}
