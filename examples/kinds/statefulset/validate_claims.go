package statefulset

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/pvc"
)

// storageClasses looks up StorageClasses. Both functions return nil if the class does not exist, and an error if the
// lookup fails.
type storageClasses interface {
	// Named returns the StorageClass with a name.
	Named(name string) (*storagev1.StorageClass, error)
	// Default returns the StorageClass that is used for claims without a class; see [defaultClass].
	Default() (*storagev1.StorageClass, error)
}

// annotationDefaultClass marks the default StorageClass, if the value is "true".
const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

// defaultClass returns the class that the API server sets on claims without a class: the newest class marked as
// default. If several classes are equally new, the first by name is returned. Nil means that no class is marked as
// default.
func defaultClass(classes []storagev1.StorageClass) *storagev1.StorageClass {
	var marked []*storagev1.StorageClass
	for i := range classes {
		if classes[i].Annotations[annotationDefaultClass] == "true" {
			marked = append(marked, &classes[i])
		}
	}
	if len(marked) == 0 {
		return nil
	}
	return slices.MinFunc(marked, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// validateClaimUpdate checks changes of claim templates that change existing claims too. The update strategy of claims
// says whether existing claims are changed. If existing claims are not changed, a template affects only claims created
// later, and may change in any way.
func validateClaimUpdate(next, old *v1beta1.StatefulSetSpec, opts validateOptions) (field.ErrorList, error) {
	if !opts.autoResizePVC || next.VolumeClaimUpdateStrategy.Type != v1beta1.ClaimsOnPodRollingUpdate {
		return nil, nil
	}
	if apiequality.Semantic.DeepEqual(next.VolumeClaimTemplates, old.VolumeClaimTemplates) {
		return nil, nil
	}
	path := field.NewPath("spec").Child("volumeClaimTemplates")
	before := map[string]*corev1.PersistentVolumeClaim{}
	for i := range old.VolumeClaimTemplates {
		before[old.VolumeClaimTemplates[i].Name] = &old.VolumeClaimTemplates[i]
	}
	const fixed = "templates cannot come, go or be renamed with volumeClaimUpdateStrategy OnPodRollingUpdate: claims that exist follow them"
	var errs field.ErrorList
	for i := range next.VolumeClaimTemplates {
		claim, at := &next.VolumeClaimTemplates[i], path.Index(i)
		was := before[claim.Name]
		if was == nil {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("%q is new; %s", claim.Name, fixed)))
			continue
		}
		delete(before, claim.Name)
		problems, err := claimChange(claim, was, opts.storageClasses, at)
		if err != nil {
			return errs, err
		}
		errs = append(errs, problems...)
	}
	for i := range old.VolumeClaimTemplates { // a loop over the map would give the errors in random order
		if name := old.VolumeClaimTemplates[i].Name; before[name] != nil {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("%q is gone; %s", name, fixed)))
			delete(before, name)
		}
	}
	return errs, nil
}

// claimChange checks a change of a claim template. Only the storage request may change, and a class may be added where
// none is set.
func claimChange(next, old *corev1.PersistentVolumeClaim, classes storageClasses, path *field.Path) (field.ErrorList, error) {
	var errs field.ErrorList
	at, is, was := path.Child("spec"), next.Spec.DeepCopy(), old.Spec.DeepCopy()
	if class := is.StorageClassName; class != nil && was.StorageClassName != nil && *class != *was.StorageClassName {
		errs = append(errs, field.Forbidden(at.Child("storageClassName"), fmt.Sprintf(
			"cannot change from %q to %q: claims that exist keep theirs", *was.StorageClassName, *class)))
	}
	if !sameModes(is.AccessModes, was.AccessModes) {
		errs = append(errs, field.Forbidden(at.Child("accessModes"), fmt.Sprintf(
			"cannot change from %v to %v: claims that exist keep theirs", was.AccessModes, is.AccessModes)))
	}
	is.StorageClassName, is.AccessModes, was.StorageClassName, was.AccessModes = nil, nil, nil, nil
	for _, amounts := range []corev1.ResourceList{is.Resources.Requests, is.Resources.Limits, was.Resources.Requests, was.Resources.Limits} {
		delete(amounts, corev1.ResourceStorage)
	}
	if !apiequality.Semantic.DeepEqual(is, was) {
		errs = append(errs, field.Forbidden(at, "only the storage of resources can change with volumeClaimUpdateStrategy OnPodRollingUpdate: "+
			"claims that exist keep the rest"))
	}
	wanted, had := next.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if len(errs) > 0 || classes == nil || wanted.Cmp(had) <= 0 {
		return errs, nil // claims are never made smaller
	}
	return growth(next, classes, at)
}

// growth checks that the claims of a template can be resized, by the StorageClass that new claims get.
func growth(claim *corev1.PersistentVolumeClaim, classes storageClasses, path *field.Path) (field.ErrorList, error) {
	at, named := path.Child("resources", "requests").Key(string(corev1.ResourceStorage)), claim.Spec.StorageClassName
	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if named == nil {
		class, err := classes.Default()
		if err != nil {
			return nil, fmt.Errorf("looking up the default storage class of claims %q: %w", claim.Name, err)
		}
		if class == nil || pvc.Expands(class) {
			return nil, nil
		}
		return field.ErrorList{field.Invalid(at, wanted.String(), fmt.Sprintf(
			"claims cannot grow: the default storage class %s does not have allowVolumeExpansion true", class.Name))}, nil
	}
	var class *storagev1.StorageClass
	if *named != "" {
		var err error
		if class, err = classes.Named(*named); err != nil {
			return nil, fmt.Errorf("looking up storage class %q of claims %q: %w", *named, claim.Name, err)
		}
	}
	switch {
	case class == nil:
		return field.ErrorList{field.Invalid(at, wanted.String(), fmt.Sprintf("claims cannot grow: there is no storage class %q", *named))}, nil
	case !pvc.Expands(class):
		return field.ErrorList{field.Invalid(at, wanted.String(), fmt.Sprintf(
			"claims cannot grow: storage class %s does not have allowVolumeExpansion true", class.Name))}, nil
	}
	return nil, nil
}

// sameModes reports whether two lists contain the same access modes, in any order.
func sameModes(a, b []corev1.PersistentVolumeAccessMode) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}
