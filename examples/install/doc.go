// Package install answers the question: does what is installed work? Package install contains only tests: of the
// manifests under examples/config, of the chart under examples/charts, of the rights that they grant, and of the image.
package install
