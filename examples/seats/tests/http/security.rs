//! Attacks that must fail, and secrets that must not be seen.

use reqwest::{Method, StatusCode};

use crate::theatre::{HOLD, Page, Theatre};

#[tokio::test]
async fn no_page_and_no_address_shows_a_token() {
    let theatre = Theatre::open().await;
    let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
    let mut seen = vec![ada.choose("C1").await, bob.choose("C1").await];
    let token = ada.token("C1");
    seen.push(ada.get("/seats/C1").await);
    seen.push(ada.pay_slowly("C1").await);
    seen.push(ada.get("/seats/C1").await);
    seen.push(bob.get("/").await);
    seen.push(ada.bank_answers("C1").await);
    seen.push(ada.get("/seats/C1").await);
    theatre.clock.advance(HOLD);
    seen.push(bob.get("/seats/C1").await);
    for page in seen {
        let shown = format!("{page:?}");
        assert!(!shown.contains(&token) && !shown.contains(&ada.cookie("seats-visitor").unwrap()), "{shown}");
    }
}

#[tokio::test]
async fn a_seat_is_paid_or_given_back_only_by_its_holder() {
    let theatre = Theatre::open().await;
    let (ada, eve) = (theatre.browser("Ada").await, theatre.browser("Eve").await);
    ada.choose("C1").await.leads_to("/seats/C1");
    ada.pay_slowly("C1").await.leads_to("/seats/C1");
    let is_not_hers = |page: Page| assert_eq!(page.status, StatusCode::FORBIDDEN, "{page:?}");
    is_not_hers(eve.pay("C1").await);
    is_not_hers(eve.give_back("C1").await);
    is_not_hers(eve.renew("C1").await);

    // With the number of Ada's claim, which is no secret, and a token of her own.
    eve.choose("C2").await.leads_to("/seats/C2");
    let number = ada.cookie("seats-claim-C1").unwrap().split_once('.').unwrap().0.to_owned();
    eve.set_cookie("seats-claim-C1", &format!("{number}.{}", eve.token("C2")));
    assert_eq!(eve.bank_answers("C1").await.status, StatusCode::CONFLICT);
    assert_eq!(eve.pay("C1").await.status, StatusCode::CONFLICT);
    assert_eq!(eve.renew("C1").await.status, StatusCode::CONFLICT);
    eve.give_back("C1").await.leads_to("/");
    assert_eq!(ada.heading("C1").await, "Your bank is at work on C1");
    ada.bank_answers("C1").await.leads_to("/seats/C1");
    assert_eq!(ada.heading("C1").await, "C1 is yours");
    assert_eq!(theatre.takings().await, 45_00);
}

#[tokio::test]
async fn no_seat_is_booked_without_a_payment() {
    let theatre = Theatre::open().await;
    let eve = theatre.browser("Eve").await;
    eve.choose("C1").await.leads_to("/seats/C1");
    let refused = eve.bank_answers("C1").await;
    assert_eq!((refused.status, refused.heading()), (StatusCode::CONFLICT, "C1 is not paid".to_owned()));

    // A payment cannot be taken back by way of another seat, either.
    eve.pay_slowly("C1").await.leads_to("/seats/C1");
    let number_and_token = eve.cookie("seats-claim-C1").unwrap();
    eve.set_cookie("seats-claim-C2", &number_and_token);
    eve.give_back("C2").await.leads_to("/");
    assert_eq!(eve.heading("C1").await, "Your bank is at work on C1");
    eve.bank_answers("C1").await.leads_to("/seats/C1");
    assert_eq!(eve.heading("C1").await, "C1 is yours");
    assert_eq!(theatre.takings().await, 45_00);
}

#[tokio::test]
async fn no_other_site_presses_our_buttons() {
    let theatre = Theatre::open().await;
    let ada = theatre.browser("Ada").await;
    for site in ["cross-site", "same-site"] {
        let request = ada.request(Method::POST, "/seats/C1/claim", "name=Ada").header("sec-fetch-site", site);
        let refused = Page::read(request.send().await.unwrap()).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(ada.sees("C1").await, "free, 45.00\u{a0}€");
    let request =
        ada.request(Method::POST, "/seats/C1/claim", "name=Ada").header("sec-fetch-site", "same-origin");
    Page::read(request.send().await.unwrap()).await.leads_to("/seats/C1");
}

#[tokio::test]
async fn a_name_is_shown_as_it_is_and_never_as_html() {
    let theatre = Theatre::open().await;
    let (eve, bob) = (theatre.browser("<script>x</script>%26").await, theatre.browser("Bob").await);
    eve.choose("C1").await.leads_to("/seats/C1");
    for page in [bob.get("/").await, bob.get("/seats/C1").await, eve.get("/seats/C1").await] {
        assert!(!page.text.contains("<script>x"), "{}", page.text);
    }
    let text =
        bob.get("/seats/C1").await.text.replace("&#60;", "<").replace("&#62;", ">").replace("&#38;", "&");
    assert!(text.contains("C1 is held for <script>x</script>&</h1>"), "{text}");
}

#[tokio::test]
async fn what_is_asked_wrongly_is_answered_with_what_to_do() {
    let theatre = Theatre::open().await;
    let ada = theatre.browser("Ada").await;
    let too_long = format!("name={}", "x".repeat(41));
    let cases = [
        (Method::GET, "/seats/Z9", "", StatusCode::NOT_FOUND, "rows are A to F, seats 1 to 10"),
        (Method::GET, "/nowhere", "", StatusCode::NOT_FOUND, "Choose your seat in the hall"),
        (Method::GET, "/seats/C1/pay", "", StatusCode::METHOD_NOT_ALLOWED, "Press the button on the page"),
        (Method::POST, "/seats/C1/claim", "name=", StatusCode::UNPROCESSABLE_ENTITY, "1 to 40 characters"),
        (Method::POST, "/seats/C1/claim", &too_long, StatusCode::UNPROCESSABLE_ENTITY, "1 to 40 characters"),
        (Method::POST, "/name", "name=%0A%07x", StatusCode::UNPROCESSABLE_ENTITY, "1 to 40 characters"),
        (Method::POST, "/seats/C1/bank", "", StatusCode::FORBIDDEN, "Choose the seat first"),
    ];
    for (method, path, body, status, advice) in cases {
        let page = ada.send(method, path, body).await;
        assert_eq!(page.status, status, "{path}");
        page.says(advice);
        page.says("class=\"button\"");
    }
}
