package watchhealth

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource says how the API server serves a kind.
type Resource struct {
	// Plural is the name of the resource, as in paths.
	Plural string
	// ClusterScoped says that objects are in no namespace.
	ClusterScoped bool
}

// Mapper knows kinds before the API server has them, and asks next about all further kinds. A cache without Mapper
// cannot learn of a kind before its CustomResourceDefinition exists:
//
//	manager.Options{MapperProvider: func(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
//		next, err := apiutil.NewDynamicRESTMapper(config, c)
//		return watchhealth.Mapper(next, resources), err
//	}}
func Mapper(next meta.RESTMapper, resources map[schema.GroupVersionKind]Resource) meta.RESTMapper {
	known := meta.NewDefaultRESTMapper(nil)
	for kind, resource := range resources {
		scope := meta.RESTScope(meta.RESTScopeNamespace)
		if resource.ClusterScoped {
			scope = meta.RESTScopeRoot
		}
		at := kind.GroupVersion()
		known.AddSpecific(kind, at.WithResource(resource.Plural), at.WithResource(strings.ToLower(kind.Kind)), scope)
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{known, next}}
}
