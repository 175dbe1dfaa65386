// Package install answers the question: does an installation work? The package contains only tests: of the manifests
// under examples/config, of the chart under examples/charts, of the granted rights, and of the image.
package install
