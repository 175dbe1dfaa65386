package webhookcert

import "github.com/workloadkit/workloadkit/reason"

// Why something is written, awaited or refused. The path of a reason is a key of the Secret, such as data[tls.crt], or
// a field of the object.
const (
	// CertificateMissing means that a key of the Secret, or the Secret itself, is absent or empty.
	CertificateMissing reason.Code = "CertificateMissing"
	// CertificateUnreadable means that a value is not the PEM that belongs there.
	CertificateUnreadable reason.Code = "CertificateUnreadable"
	// NotACertificateAuthority means that a certificate in the place of an authority may not sign, or that clients accept
	// no leaf signed by the authority.
	NotACertificateAuthority reason.Code = "NotACertificateAuthority"
	// CertificateNotYetValid means that a certificate's validity begins in the future: the certificate is new, or the
	// clock went back.
	CertificateNotYetValid reason.Code = "CertificateNotYetValid"
	// CertificateExpired means that a certificate's validity is over, or the clock went ahead.
	CertificateExpired reason.Code = "CertificateExpired"
	// KeyMismatch means that a private key belongs to another certificate.
	KeyMismatch reason.Code = "KeyMismatch"
	// CertificateNameMismatch means that the leaf lacks a served name.
	CertificateNameMismatch reason.Code = "CertificateNameMismatch"
	// CertificateIssuerMismatch means that the leaf does not verify against the published authority.
	CertificateIssuerMismatch reason.Code = "CertificateIssuerMismatch"
	// CertificateCopiesDiffer means that keys of the Secret with required equal values have different values.
	CertificateCopiesDiffer reason.Code = "CertificateCopiesDiffer"
	// CertificateRenewalDue means that a certificate ends soon enough to be replaced.
	CertificateRenewalDue reason.Code = "CertificateRenewalDue"
	// RotationRequested means that somebody has put the request into the Secret (Keys.Rotate).
	RotationRequested reason.Code = "RotationRequested"
	// RotationStepPublished means that the process has seen a stage of the rotation at every place. The stage's overlap
	// begins.
	RotationStepPublished reason.Code = "RotationStepPublished"
	// OverlapOver means that a stage of the rotation has been published for long enough to take the next stage.
	OverlapOver reason.Code = "OverlapOver"
	// AwaitingOverlap means that a stage of the rotation has not been published for long enough.
	AwaitingOverlap reason.Code = "AwaitingOverlap"
	// AwaitingInjection means that some object does not hold the bundle yet, so the overlap has not begun or may not end.
	AwaitingInjection reason.Code = "AwaitingInjection"
	// RotationHeldUp means that somebody resets the bundle of an object again and again, so no overlap comes to its end.
	// The rotation waits, and goes on by itself after the resets stop.
	RotationHeldUp reason.Code = "RotationHeldUp"
	// ClockJumped means that the clock went back, or ahead by more than the passed time. The overlap starts again, and no
	// certificate counts as expired or not yet valid until the clock has run on for a minute.
	ClockJumped reason.Code = "ClockJumped"
	// CABundleDiffers means that an object lacks the bundle needed by clients.
	CABundleDiffers reason.Code = "CABundleDiffers"
	// ClientAddressDiffers means that an object sends its clients to another address.
	ClientAddressDiffers reason.Code = "ClientAddressDiffers"
	// BadAddress means that clients could not reach a server at the configured address.
	BadAddress reason.Code = "BadAddress"
	// NoConversionWebhook means that a CustomResourceDefinition does not convert through a webhook. The API server refuses
	// a bundle there, so the definition is left alone.
	NoConversionWebhook reason.Code = "NoConversionWebhook"
	// InvalidConfig means that a Policy was not made by Config.Complete, or a Decision not by Policy.Decide.
	InvalidConfig reason.Code = "InvalidConfig"
)
