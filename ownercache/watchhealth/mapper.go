package watchhealth

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource describes how the API server serves a kind.
type Resource struct {
	// Plural is the plural name of the resource, as in URLs.
	Plural string
	// ClusterScoped says that the objects have no namespace.
	ClusterScoped bool
}

// Mapper is a RESTMapper that knows the given kinds before the API server has them, and passes requests about all
// other kinds to the RESTMapper next. If a cache has no Mapper, it cannot map a kind before the kind's
// CustomResourceDefinition exists:
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
