module github.com/workloadkit/workloadkit/examples

go 1.26.0

require (
	github.com/workloadkit/workloadkit v0.0.0
	github.com/workloadkit/workloadkit/examples/apis v0.0.0
	k8s.io/api v0.36.3
	k8s.io/apimachinery v0.36.3
	k8s.io/client-go v0.36.3
	sigs.k8s.io/controller-runtime v0.24.1
	github.com/google/go-cmp v0.7.0
	github.com/spf13/cobra v1.10.2
)

replace (
	github.com/workloadkit/workloadkit => ..
	github.com/workloadkit/workloadkit/examples/apis => ./apis
)
