package webhookcert

import "github.com/workloadkit/workloadkit/reason"

// These are reasons why the Secret or an object is written, or why a rotation waits, or why an input is refused. The
// path of a reason is an entry of the Secret, such as data[tls.crt], or a field of an object.
const (
	// CertificateMissing means that an entry of the Secret, or the Secret itself, is missing or empty.
	CertificateMissing reason.Code = "CertificateMissing"
	// CertificateUnreadable means that the value of an entry cannot be parsed as PEM of the expected type.
	CertificateUnreadable reason.Code = "CertificateUnreadable"
	// NotACertificateAuthority means that the certificate of an authority may not sign, or clients accept no leaf signed
	// by the authority.
	NotACertificateAuthority reason.Code = "NotACertificateAuthority"
	// CertificateNotYetValid means that a certificate's validity begins in the future: the certificate is new, or the
	// clock was set back.
	CertificateNotYetValid reason.Code = "CertificateNotYetValid"
	// CertificateExpired means that a certificate has expired, or the clock was set ahead.
	CertificateExpired reason.Code = "CertificateExpired"
	// KeyMismatch means that a private key belongs to another certificate.
	KeyMismatch reason.Code = "KeyMismatch"
	// CertificateNameMismatch means that the leaf is not valid for a name of the server.
	CertificateNameMismatch reason.Code = "CertificateNameMismatch"
	// CertificateIssuerMismatch means that the leaf cannot be verified with the published authority.
	CertificateIssuerMismatch reason.Code = "CertificateIssuerMismatch"
	// CertificateCopiesDiffer means that entries of the Secret that must be equal differ.
	CertificateCopiesDiffer reason.Code = "CertificateCopiesDiffer"
	// CertificateRenewalDue means that a certificate expires soon and must be replaced.
	CertificateRenewalDue reason.Code = "CertificateRenewalDue"
	// RotationRequested means that a user has requested a rotation with the Secret's entry Keys.Rotate.
	RotationRequested reason.Code = "RotationRequested"
	// RotationStepPublished means that the process has observed a stage of the rotation in the Secret and in every
	// object. The stage's overlap begins.
	RotationStepPublished reason.Code = "RotationStepPublished"
	// OverlapOver means that a stage of the rotation was published for long enough to begin the next stage.
	OverlapOver reason.Code = "OverlapOver"
	// AwaitingOverlap means that a stage of the rotation was not published for long enough yet.
	AwaitingOverlap reason.Code = "AwaitingOverlap"
	// AwaitingInjection means that an object does not hold the CA bundle yet, so the overlap has not begun or must not
	// end.
	AwaitingInjection reason.Code = "AwaitingInjection"
	// RotationHeldUp means that somebody overwrites the CA bundle of an object again and again: the rotation cannot
	// continue, because both authorities must be in the bundle for the whole overlap. The rotation continues by itself
	// when nobody overwrites the bundle any more.
	RotationHeldUp reason.Code = "RotationHeldUp"
	// ClockJumped means that the clock went back, or ahead by more than the time that passed. The overlap starts again,
	// and no certificate counts as expired or not yet valid until the clock has run normally for a minute.
	ClockJumped reason.Code = "ClockJumped"
	// CABundleDiffers means that an object does not hold the CA bundle that API servers need.
	CABundleDiffers reason.Code = "CABundleDiffers"
	// ClientAddressDiffers means that an object makes API servers connect to another address than the configured
	// address.
	ClientAddressDiffers reason.Code = "ClientAddressDiffers"
	// BadAddress means that API servers could not connect to a server at the configured address.
	BadAddress reason.Code = "BadAddress"
	// NoConversionWebhook means that a CustomResourceDefinition does not convert through a webhook. The API server
	// refuses a CA bundle in such a definition, so the definition is not changed.
	NoConversionWebhook reason.Code = "NoConversionWebhook"
	// InvalidConfig means that a Policy was not made by Config.Complete, or a Decision not by Policy.Decide.
	InvalidConfig reason.Code = "InvalidConfig"
)
