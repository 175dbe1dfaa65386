// Package podwebhook answers "what do I tell the API server about a Pod that is being created?".
//
// A [Handler] runs steps on a Pod, in an order fixed by [New], and answers with the difference made by the steps: a
// JSON patch, or none without a difference. Injection of sidecars is a step ([Injection]). Add further steps as needed:
//
//	sidecars, err := podwebhook.Injection{Control: control, Sets: setsOf}.Mutator("sidecars")
//	handler, err := podwebhook.New(gates, sidecars, launchOrder)
//	server.Register("/mutate-pod", &admission.Webhook{Handler: handler})
//
// The patch contains only the changes. Fields unknown to the Go types, because the API server is newer, stay unchanged.
// A failed step refuses the Pod: 403 with the reasons if the error has reasons (package reason), the error's own status
// for errors of the API, and 500 otherwise. A panic counts as a failure. No Pod is ever changed by half of the steps.
// Mirrors of static Pods are left unchanged, because a kubelet runs static Pods from a file.
package podwebhook
