// What is wider than its place can have the focus, so that the arrow keys scroll it. What fits is no stop of the tab key.
function focusable() {
  for (const part of document.querySelectorAll(".highlight pre, .table-wrapper")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
// Sphinx calls the captions beside a page headings, without the level that a heading must have.
for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.ariaLevel = "2";
window.addEventListener("load", focusable);
window.addEventListener("resize", focusable);
