package validation

import (
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkVolumes returns the names of all volumes.
func checkVolumes(volumes []corev1.Volume, path *field.Path) (sets.Set[string], field.ErrorList) {
	names := sets.New[string]()
	var errs field.ErrorList
	for i := range volumes {
		at := path.Index(i)
		errs = append(errs, uniqueLabel(volumes[i].Name, names, at.Child("name"))...)
		if n := sources(volumes[i].VolumeSource); n > 1 {
			errs = append(errs, field.Invalid(at, volumes[i].Name, "may have only one source"))
		}
	}
	return names, errs
}

// sources counts the sources that are set. Reflection keeps it right when the API grows another one.
func sources(source corev1.VolumeSource) int {
	n := 0
	for _, value := range reflect.ValueOf(source).Fields() {
		if !value.IsNil() {
			n++
		}
	}
	return n
}

// mounts checks volumeMounts and volumeDevices of one container.
func (v *podChecker) mounts(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	paths := sets.New[string]()
	for i, mount := range c.VolumeMounts {
		mountAt := at.Child("volumeMounts").Index(i)
		errs = append(errs, v.knownVolume(mount.Name, mountAt.Child("name"))...)
		errs = append(errs, uniquePath(mount.MountPath, paths, mountAt.Child("mountPath"))...)
		errs = append(errs, relativePath(mount.SubPath, mountAt.Child("subPath"))...)
		errs = append(errs, relativePath(mount.SubPathExpr, mountAt.Child("subPathExpr"))...)
		if mount.SubPath != "" && mount.SubPathExpr != "" {
			errs = append(errs, field.Invalid(mountAt.Child("subPathExpr"), mount.SubPathExpr,
				"must be empty when subPath is set"))
		}
	}
	for i, device := range c.VolumeDevices {
		deviceAt := at.Child("volumeDevices").Index(i)
		errs = append(errs, v.knownVolume(device.Name, deviceAt.Child("name"))...)
		errs = append(errs, uniquePath(device.DevicePath, paths, deviceAt.Child("devicePath"))...)
	}
	return errs
}

func (v *podChecker) knownVolume(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "name a volume or a claim template")}
	}
	if !v.volumes.Has(name) {
		return field.ErrorList{field.NotFound(at, name)}
	}
	return nil
}

func uniquePath(value string, seen sets.Set[string], at *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "give a path in the container")}
	}
	if seen.Has(value) {
		return field.ErrorList{field.Invalid(at, value, "must be unique within the container")}
	}
	seen.Insert(value)
	return nil
}

func relativePath(value string, at *field.Path) field.ErrorList {
	if path.IsAbs(value) {
		return field.ErrorList{field.Invalid(at, value, "must be a relative path")}
	}
	if slices.Contains(strings.Split(value, "/"), "..") {
		return field.ErrorList{field.Invalid(at, value, `must not contain ".."`)}
	}
	return nil
}

// uniqueLabel checks a name that must be a DNS label and not yet in seen, and adds it.
func uniqueLabel(name string, seen sets.Set[string], at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if seen.Has(name) {
		return field.ErrorList{field.Duplicate(at, name)}
	}
	seen.Insert(name)
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}
