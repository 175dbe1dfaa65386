// Package install answers the question: does what is installed work? Package install holds only tests: of the manifests
// under examples/config, of the chart under examples/charts, of their granted rights, and of the image.
package install
