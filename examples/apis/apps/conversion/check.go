package conversion

import "k8s.io/apimachinery/pkg/util/validation/field"

// roomy is a size in bytes: an object of this size fits into an annotation twice even if every byte must be escaped.
const roomy = 256 << 10 / 8

// Check returns the parts of a serialised object that a conversion to the other version and back would lose: the other
// version has no field for these parts, and the annotation has no more space. Admission refuses such objects, because
// [JSON] converts every stored object.
func Check(raw []byte) field.ErrorList {
	o, k, v, err := read(raw)
	if err == nil && len(raw) <= roomy {
		return nil
	}
	back := clone(o)
	for _, to := range []int{1 - v, v} {
		if err == nil {
			err = k.convert(back, to)
		}
	}
	if err != nil {
		return invalid(specKey, "cannot be converted: "+err.Error())
	}
	var errs field.ErrorList
	for _, f := range k.differences(o, back, v) {
		part := k.place(f.Path, v)
		switch part[0] {
		case metadataKey:
			part = part[:2]
		case statusKey: // status fields are not checked by admission
			continue
		}
		if n := len(errs); !f.saysNothing() && (n == 0 || errs[n-1].Field != part.String()) {
			errs = append(errs, invalid(part.String(), "has parts that "+k.apiVersions[1-v]+
				" keeps in an annotation, and all annotations together are more than 256 KiB then")...)
		}
	}
	return errs
}

func invalid(at, why string) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath(at), field.OmitValueType{}, why)}
}
