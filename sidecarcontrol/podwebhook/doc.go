// Package podwebhook answers "how must the API server change a Pod that is being created?".
//
// A [Handler] runs steps on a Pod, in the order given to [New], and responds with a JSON patch of what the steps have
// changed, or without a patch if nothing changed. [Injection] is such a step, which injects sidecars. Add further steps
// as needed:
//
//	sidecars, err := podwebhook.Injection{Control: control, Sets: setsOf}.Mutator("sidecars")
//	handler, err := podwebhook.New(gates, sidecars, launchOrder)
//	server.Register("/mutate-pod", &admission.Webhook{Handler: handler})
//
// The patch contains only what the steps have changed. Fields that the Go types do not have, because the API server
// is newer, are not changed. If a step fails or panics, the Pod is refused, so that no Pod is created with the
// changes of only some steps. The response has status 403 and the reasons if the error has reasons (package reason),
// the error's own status if the error is an API error, and status 500 otherwise. Mirror Pods of static Pods are not
// changed, because a kubelet runs static Pods from a file.
package podwebhook
