// Package podwebhook answers "what do I tell the API server about a Pod that is being created?".
//
// A [Handler] runs steps on a Pod, in an order that is fixed when it is made, and answers with the difference that they made: a JSON
// patch, or none where nothing differs. Injection of sidecars is one step ([Injection]); whoever has more to say about Pods adds others:
//
//	sidecars, err := podwebhook.Injection{Control: control, Sets: setsOf}.Step("sidecars")
//	handler, err := podwebhook.New(gates, sidecars, launchOrder)
//	server.Register("/mutate-pod", &admission.Webhook{Handler: handler})
//
// The patch says what changed, and nothing else. Fields that these Go types do not know, because the API server is newer, stay as they
// are. A step that fails refuses the Pod: 403 with the reasons where it says why (package reason), what it asks for where the error is
// one of the API's, and 500 otherwise. A step that panics has failed. No Pod is ever changed by half of the steps. Mirrors of static Pods
// are left as they are: a kubelet runs those from a file.
package podwebhook
