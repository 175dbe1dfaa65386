// Package install contains only tests: of the manifests under examples/config, of the Helm chart under
// examples/charts, of the RBAC permissions, and of the container image.
package install
